"""The matcher: the only code that takes bots off a queue for a slot.

A match is four statements under the pool's lock: delete slots above the maximum, assign the heads
of the queue to idle slots, grow the pool by the bots that still wait, and assign these new slots.
The pool grows only after the first assignment, because an idle slot that an admission is claiming
is not available to the queue. Other transactions that enqueue bots, free, reset or delete slots
run the match's statements in their own transaction.

While bots of several tenants wait in a pool, the tenants take turns (`refresh_turns.sql`): the next
bot is of the tenant with the smallest share of the slots. With one waiting tenant there are no
turns. The poll corrects a turn that is missing after a crash, or that has no bot any more.

An installation with one tenant uses a statement without turns and quotas (`match_queue.sql`). The
poll says whether tenants share the pools. The database decides: while they do, that statement
serves no bot, so an outdated hint delays a match until the next poll.
"""

from collections.abc import Sequence, Set
from typing import Any

import structlog

from botpool.domain import reasons
from botpool.domain.errors import DatabaseUnavailable
from botpool.domain.ids import PoolName, SlotId, TenantId
from botpool.domain.slots import SlotChange
from botpool.domain.states import SlotStatus
from botpool.engine.observability import event_log
from botpool.engine.observability.metrics import Metrics
from botpool.engine.runtime.wakeups import Wakeups
from botpool.store.bookings import open_hold, restore_hold
from botpool.store.database import Database
from botpool.store.pools import grow_pool, lock_pool, shrink_pool
from botpool.store.query import Statement
from botpool.store.queue import MatchedSlot, match_queue, match_shared_queue
from botpool.store.turns import list_waiting_pools, refresh_turns

_log = structlog.get_logger()


class Match:
    """The statements of one match, which run under the pool's lock, for `Matcher.report`.

    In a pool with bookings, three more statements come first: make slots assignable for the due
    bots with a reservation, serve these, and hold slots for the next bookings.
    """

    def __init__(self, pool_name: PoolName, *, booked: bool, shared: bool) -> None:
        match = match_shared_queue if shared else match_queue
        self.booked = booked
        self.surplus = shrink_pool.statement(pool_name=pool_name)
        self.opened = open_hold.statement(pool_name=pool_name)
        self.reserved = match_shared_queue.statement(pool_name=pool_name, reserved=True)
        self.hold = restore_hold.statement(pool_name=pool_name)
        self.assigned = match.statement(pool_name=pool_name)
        self.created = grow_pool.statement(pool_name=pool_name)
        self.assigned_created = match.statement(pool_name=pool_name)

    @property
    def statements(self) -> Sequence[Statement[Any]]:
        others: list[Statement[Any]] = [self.assigned, self.created, self.assigned_created]
        if not self.booked:
            return [self.surplus, *others]
        return [self.surplus, self.opened, self.reserved, self.hold, *others]

    @property
    def all_assigned(self) -> Sequence[MatchedSlot]:
        """The slots that got a bot."""
        reserved = [self.reserved] if self.booked else []
        each = [*reserved, self.assigned, self.assigned_created]
        return [slot for statement in each for slot in statement.result]

    @property
    def all_created(self) -> Sequence[SlotChange]:
        """The slots by which the pool grew."""
        if not self.booked:
            return self.created.result
        held = self.hold.result
        names = [] if held is None else zip(held.created_ids, held.created_names, strict=True)
        for_bookings = [SlotChange(slot_id=slot_id, slot_name=name) for slot_id, name in names]
        return [*self.opened.result, *for_bookings, *self.created.result]


class Matcher:
    """Matches queued bots with slots and reports each match."""

    def __init__(self, database: Database, wakeups: Wakeups, metrics: Metrics) -> None:
        self._database = database
        self._wakeups = wakeups
        self._metrics = metrics
        # Pools with open bookings: a hint, which the poll of the schedule renews every second.
        self._booked: set[PoolName] = set()
        # Whether tenants share the pools: a hint, which the poll of the queue renews every second.
        self.is_shared = True

    def expect_bookings(self, pool_name: PoolName) -> None:
        """Serve and hold reservations in the matches of a pool from now on."""
        self._booked.add(pool_name)

    def expect_only_bookings_of(self, pool_names: Sequence[PoolName]) -> None:
        """Serve and hold reservations in the matches of these pools only."""
        self._booked = set(pool_names)

    def has_bookings(self, pool_name: PoolName) -> bool:
        """Whether a match of the pool must look at bookings."""
        return pool_name in self._booked

    def prepare_match(self, pool_name: PoolName) -> Match:
        """Return the statements of a match."""
        return Match(pool_name, booked=self.has_bookings(pool_name), shared=self.is_shared)

    def prepare_booked_match(self, pool_name: PoolName) -> Match:
        """Return the statements of a match that regards bookings, whatever the hint says."""
        return Match(pool_name, booked=True, shared=self.is_shared)

    async def match_pool(self, pool_name: PoolName) -> None:
        """Assign as many bots of the pool's queue as it has slots."""
        match = self.prepare_match(pool_name)
        lock = lock_pool.statement(pool_name=pool_name)
        await self._database.commit([lock, *match.statements])
        self.report(match)

    async def refresh_turns(self, pool_name: PoolName) -> set[SlotId]:
        """Give turns to the tenants that wait in a pool, match, and return the assigned slots."""
        match = self.prepare_match(pool_name)
        lock = lock_pool.statement(pool_name=pool_name)
        refresh = refresh_turns.statement(pool_name=pool_name)
        await self._database.commit([lock, refresh, *match.statements])
        return self.report(match)

    async def serve_tenants(self, tenant_ids: Set[TenantId], *, besides: PoolName) -> None:
        """Match the other pools in which these tenants wait: their quota has room again.

        If the database fails, the poll does it.
        """
        try:
            for pool_name in await list_waiting_pools(self._database, tenant_ids=[*tenant_ids]):
                if pool_name != besides:
                    await self.refresh_turns(pool_name)
        except DatabaseUnavailable as error:
            _log.warning("quota.match_postponed", problem=error.detail)

    def report(self, match: Match) -> set[SlotId]:
        """Log and count a committed match, wake the reconciler and return the assigned slots."""
        for surplus in match.surplus.result:
            event_log.slot_transition(
                surplus, old=surplus.status, new=SlotStatus.DELETING, reason=surplus.reason
            )
        for created in match.all_created:
            event_log.slot_transition(
                created, old=None, new=SlotStatus.IDLE, reason=reasons.POOL_GREW
            )
        assigned = match.all_assigned
        event_log.bots_assigned(assigned, reason=reasons.ASSIGNED)
        for slot in assigned:
            self._metrics.assigned(slot.pool_name, warm=slot.container_id is not None)
        self._wakeups.handover_push.push(
            (slot.slot_id, slot.poll_owner) for slot in assigned if slot.poll_owner is not None
        )
        if match.surplus.result or any(slot.poll_owner is None for slot in assigned):
            self._wakeups.wake_reconcilers()
        return {slot.slot_id for slot in assigned}
