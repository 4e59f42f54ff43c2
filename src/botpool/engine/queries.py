"""Queries of users and operators. They change nothing."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from botpool.backends.protocol import Backend
from botpool.domain.errors import NotFound
from botpool.domain.ids import AssignmentId, BotId, ContainerId, PoolName, SlotId
from botpool.domain.records import Assignment, Bot, HistoryRow, Pool, PoolSample, QueueEntry, Slot
from botpool.domain.states import BotStatus, SlotStatus
from botpool.domain.timeline import Bar, timeline
from botpool.engine.admission.estimates import Estimates
from botpool.store.assignments import list_slot_assignments
from botpool.store.bots import find_bot_bounds, find_bot_run, list_bots, list_bots_in
from botpool.store.database import Database
from botpool.store.history import list_bot_history, list_slot_history
from botpool.store.pools import list_pool_samples, list_pools
from botpool.store.queue import list_queue
from botpool.store.slots import find_slot_of_bot, find_slots_of_container, list_slots

_MAX_QUEUE_ENTRIES = 1000
_MAX_HISTORY_ROWS = 500
_MAX_ASSIGNMENTS = 200
_SEARCHED_IDS = 100_000
"""How many bot ids one search covers before it returns a page."""
_ABOVE_ALL_IDS = BotId(2**63 - 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class BotPage:
    """Bots, newest first. `before` (an id of a bot or, for bots of a container, of an assignment)
    starts the next page; None on the last page.

    A page of a search may be short, because a search covers a limited range of ids.
    """

    bots: Sequence[Bot]
    before: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Queries:
    """Reads bots, slots, pools, the queue and history."""

    database: Database
    backends: Mapping[str, Backend]
    estimates: Estimates

    async def bots(
        self,
        *,
        status: BotStatus | None,
        pool_name: PoolName | None,
        search: str | None,
        container_id: ContainerId | None = None,
        slot_name: str | None = None,
        before: int | None,
        limit: int,
    ) -> BotPage:
        """Return a page of bots: of a container or slot by assignment, else by id."""
        if container_id is not None or slot_name is not None:
            ran = await list_bots_in(
                self.database,
                container_id=container_id,
                slot_name=slot_name,
                statuses=[*BotStatus] if status is None else [status],
                pool_name=pool_name,
                search=search,
                before=AssignmentId(_ABOVE_ALL_IDS if before is None else before),
                limit=limit + 1,
            )
            shown = ran[:limit]
            return BotPage(
                bots=shown, before=shown[-1].assignment_there if len(ran) > limit else None
            )
        since, rest = BotId(0), None
        if search is not None:
            since, before, rest = await self._search_range(
                None if before is None else BotId(before)
            )
        found = await list_bots(
            self.database,
            statuses=[*BotStatus] if status is None else [status],
            pool_name=pool_name,
            search=search,
            before=_ABOVE_ALL_IDS if before is None else BotId(before),
            since=since,
            limit=limit + 1,
        )
        bots = found[:limit]
        return BotPage(bots=bots, before=bots[-1].id if len(found) > limit else rest)

    async def _search_range(self, before: BotId | None) -> tuple[BotId, BotId, BotId | None]:
        """Return the ids that one search covers, from the first to below the second.

        The third is the end of the next range; None if this is the last one.
        """
        bounds = await find_bot_bounds(self.database)
        oldest, newest = bounds.oldest or 0, bounds.newest or 0
        end = newest + 1 if before is None else min(before, newest + 1)
        begin = end - _SEARCHED_IDS
        return BotId(begin), BotId(end), BotId(begin) if begin > oldest else None

    async def bot_history(self, bot_id: BotId) -> list[HistoryRow]:
        """Return a bot's history, oldest first."""
        rows = await list_bot_history(self.database, bot_id=bot_id)
        if not rows:
            raise NotFound("bot", bot_id)
        return rows

    async def bot_timeline(self, bot_id: BotId) -> list[Bar]:
        """Return a bot's history as bars."""
        return timeline(await self.bot_history(bot_id))

    async def bot_logs(
        self, bot_id: BotId, *, tail: int | None, follow: bool
    ) -> AsyncIterator[bytes]:
        """Return the output of the bot's last run; empty before the first run."""
        run = await find_bot_run(self.database, bot_id=bot_id)
        if run is None:
            raise NotFound("bot", bot_id)
        backend = self.backends.get(run.backend)
        if backend is None or run.container_id is None or run.assignment_id is None:
            return _no_output()
        return backend.logs(run.container_id, run.assignment_id, tail=tail, follow=follow)

    async def queue(self, pool_name: PoolName | None) -> list[tuple[QueueEntry, int | None]]:
        """Return the queued bots, each with its estimated wait in milliseconds."""
        entries = await list_queue(self.database, pool_name=pool_name, limit=_MAX_QUEUE_ENTRIES)
        return [
            (entry, await self.estimates.wait_ms(entry.pool_name, entry.position))
            for entry in entries
        ]

    async def slots(
        self,
        *,
        pool_name: PoolName | None,
        status: SlotStatus | None,
        container_id: ContainerId | None = None,
        bot_id: BotId | None = None,
    ) -> list[Slot]:
        """Return slots; by container or by bot, the slot that has it now."""
        if container_id is None and bot_id is None:
            return await list_slots(self.database, pool_name=pool_name, status=status)
        found = await self._slots_of(container_id, bot_id)
        slots = [
            slot
            for slot_id in found
            for slot in await list_slots(self.database, slot_id=slot_id)
            if pool_name in (None, slot.pool_name) and status in (None, slot.status)
        ]
        return [slot for slot in slots if bot_id in (None, slot.assigned_bot_id)]

    async def _slots_of(
        self, container_id: ContainerId | None, bot_id: BotId | None
    ) -> list[SlotId]:
        if container_id is not None:
            return await find_slots_of_container(self.database, container_id=container_id)
        assert bot_id is not None
        slot = await find_slot_of_bot(self.database, bot_id=bot_id)
        return [slot.slot_id] if slot else []

    async def slot(self, slot_id: SlotId) -> Slot:
        slots = await list_slots(self.database, slot_id=slot_id)
        if not slots:
            raise NotFound("slot", slot_id)
        return slots[0]

    async def slot_history(self, slot_id: SlotId) -> list[HistoryRow]:
        """Return a slot's history, newest first."""
        rows = await list_slot_history(self.database, slot_id=slot_id, limit=_MAX_HISTORY_ROWS)
        if not rows:
            raise NotFound("slot", slot_id)
        return rows

    async def slot_assignments(self, slot_id: SlotId) -> list[Assignment]:
        """Return a slot's assignments, newest first."""
        found = await list_slot_assignments(self.database, slot_id=slot_id, limit=_MAX_ASSIGNMENTS)
        if not found:
            await self.slot(slot_id)
        return found

    async def pool_samples(self, pool_name: PoolName, minutes: int) -> list[PoolSample]:
        """Return the samples of the last minutes, oldest first, the current minute included."""
        samples = await list_pool_samples(self.database, pool_name=pool_name, minutes=minutes)
        if not samples:
            raise NotFound("pool", pool_name)
        return samples

    async def pools(self, pool_name: PoolName | None = None) -> list[Pool]:
        """Return one pool, or all of them, with their figures."""
        pools = await list_pools(self.database, pool_name=pool_name)
        if pool_name is not None and not pools:
            raise NotFound("pool", pool_name)
        return pools


async def _no_output() -> AsyncIterator[bytes]:
    return
    yield b""
