"""The matcher: the only code that takes bots off a queue for a slot.

A match is four statements under the pool's lock: delete slots above the maximum, assign the heads
of the queue to idle slots, grow the pool by the bots that still wait, and assign these new slots.
The pool grows only after the first assignment, because an idle slot that an admission is claiming
is not available to the queue. Other transactions that enqueue bots, free, reset or delete slots
run the match's statements in their own transaction.

While bots of several tenants wait in a pool, the tenants take turns (`refresh_turns.sql`): the next
bot is of the tenant with the smallest share of the slots. With one waiting tenant there are no
turns. The poll corrects a turn that is missing after a crash, or that has no bot any more.
"""

from collections.abc import Sequence, Set
from typing import Any

import structlog

from botpool.domain import reasons
from botpool.domain.errors import DatabaseUnavailable
from botpool.domain.ids import PoolName, SlotId, TenantId
from botpool.domain.states import SlotStatus
from botpool.engine.observability import event_log
from botpool.engine.observability.metrics import Metrics
from botpool.engine.runtime.wakeups import Wakeups
from botpool.store.database import Database
from botpool.store.pools import grow_pool, lock_pool, shrink_pool
from botpool.store.query import Statement
from botpool.store.queue import match_queue
from botpool.store.turns import list_waiting_pools, refresh_turns

_log = structlog.get_logger()


class Match:
    """The statements of one match, which run under the pool's lock, for `Matcher.report`."""

    def __init__(self, pool_name: PoolName) -> None:
        self.surplus = shrink_pool.statement(pool_name=pool_name)
        self.assigned = match_queue.statement(pool_name=pool_name)
        self.created = grow_pool.statement(pool_name=pool_name)
        self.assigned_created = match_queue.statement(pool_name=pool_name)

    @property
    def statements(self) -> Sequence[Statement[Any]]:
        return [self.surplus, self.assigned, self.created, self.assigned_created]


class Matcher:
    """Matches queued bots with slots and reports each match."""

    def __init__(self, database: Database, wakeups: Wakeups, metrics: Metrics) -> None:
        self._database = database
        self._wakeups = wakeups
        self._metrics = metrics

    async def match_pool(self, pool_name: PoolName) -> None:
        """Assign as many bots of the pool's queue as it has slots."""
        match = Match(pool_name)
        lock = lock_pool.statement(pool_name=pool_name)
        await self._database.commit([lock, *match.statements])
        self.report(match)

    async def refresh_turns(self, pool_name: PoolName) -> set[SlotId]:
        """Give turns to the tenants that wait in a pool, match, and return the assigned slots."""
        match = Match(pool_name)
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
        for created in match.created.result:
            event_log.slot_transition(
                created, old=None, new=SlotStatus.IDLE, reason=reasons.POOL_GREW
            )
        assigned = [*match.assigned.result, *match.assigned_created.result]
        event_log.bots_assigned(assigned, reason=reasons.ASSIGNED)
        for slot in assigned:
            self._metrics.assigned(slot.pool_name, warm=slot.container_id is not None)
        if match.surplus.result or assigned:
            self._wakeups.slots_due()
        return {slot.slot_id for slot in assigned}
