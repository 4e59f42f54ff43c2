"""Queries of users and operators. They change nothing."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypedDict, TypeVar

from botpool.backends.protocol import Backend
from botpool.domain.bots import Bot, QueueEntry
from botpool.domain.callers import DEFAULT_TENANT_ID
from botpool.domain.errors import BackendError, NotFound
from botpool.domain.history import HistoryRow, ListedHistoryRow
from botpool.domain.ids import AssignmentId, BotId, ContainerId, PoolName, SlotId, TenantId
from botpool.domain.pages import (
    AssignmentPosition,
    BotPosition,
    EventPosition,
    NewestEventPosition,
    Page,
    QueuePosition,
    SlotEventPosition,
    SlotPosition,
)
from botpool.domain.pools import Pool, PoolSample
from botpool.domain.slots import Assignment, Slot
from botpool.domain.states import BotStatus, SlotStatus
from botpool.domain.timeline import Bar, timeline
from botpool.engine.admission.estimates import Estimates
from botpool.engine.admission.matcher import Matcher
from botpool.store.assignments import list_slot_assignments
from botpool.store.bot_data import get_output
from botpool.store.bots import (
    find_bot_bounds,
    find_bot_run,
    find_bot_tenant,
    list_bots,
    list_bots_in,
    list_bots_of_tenant,
)
from botpool.store.database import Database
from botpool.store.history import (
    list_bot_history,
    list_bot_transitions,
    list_newest_bot_history,
    list_slot_history,
)
from botpool.store.pools import list_pool_samples, list_pools
from botpool.store.queue import list_queue
from botpool.store.slots import (
    find_slot_of_bot,
    find_slots_of_container,
    get_slots,
    list_slots,
)

_MAX_PAGE_BYTES = 1024 * 1024
"""The data of events in a page of history: many concurrent readers need little memory."""
_CUT = b"[Botpool kept the end of this output only.]\n"
_SEARCHED_IDS = 100_000
"""How many bot ids one search, or one page of a shared default tenant, covers."""
_ABOVE_ALL_IDS = 2**63 - 1
_BEFORE_ALL_SLOTS = SlotPosition(PoolName(""), 0)
_BEFORE_THE_QUEUE = QueuePosition(PoolName(""), 0, 0)

P = TypeVar("P")


class _BotFilters(TypedDict):
    statuses: Sequence[BotStatus]
    pool_name: PoolName | None
    search: str | None
    before: BotId
    since: BotId
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Queries:
    """Reads bots, slots, pools, the queue and history."""

    database: Database
    backends: Mapping[str, Backend]
    estimates: Estimates
    matcher: Matcher

    async def bots(
        self,
        *,
        status: BotStatus | None,
        pool_name: PoolName | None,
        tenant_id: TenantId | None = None,
        search: str | None,
        before: BotPosition | None,
        limit: int,
    ) -> Page[Bot, BotPosition]:
        """Return a page of bots, newest first: of one tenant, or of all.

        The default tenant has no index of its own. Beside other tenants, its pages cover a range of
        ids each.
        """
        since, rest = BotId(0), None
        end = BotId(_ABOVE_ALL_IDS) if before is None else before.bot_id
        is_default = tenant_id == DEFAULT_TENANT_ID
        if search is not None or (is_default and self.matcher.is_shared):
            since, end, rest = await self._search_range(end)
        filters: _BotFilters = {
            "statuses": [*BotStatus] if status is None else [status],
            "pool_name": pool_name,
            "search": search,
            "before": end,
            "since": since,
            "limit": limit + 1,
        }
        if tenant_id is None or is_default:
            found = await list_bots(self.database, tenant_id=tenant_id, **filters)
        else:
            found = await list_bots_of_tenant(self.database, tenant_id=tenant_id, **filters)
        bots = found[:limit]
        return Page(items=bots, next=BotPosition(bots[-1].id) if len(found) > limit else rest)

    async def bots_in(
        self,
        *,
        container_id: ContainerId | None,
        slot_name: str | None,
        status: BotStatus | None,
        pool_name: PoolName | None,
        tenant_id: TenantId | None = None,
        search: str | None,
        before: AssignmentPosition | None,
        limit: int,
    ) -> Page[Bot, AssignmentPosition]:
        """Return a page of the bots that ran in a container or slot, by assignment."""
        found = await list_bots_in(
            self.database,
            container_id=container_id,
            slot_name=slot_name,
            statuses=[*BotStatus] if status is None else [status],
            pool_name=pool_name,
            tenant_id=tenant_id,
            search=search,
            before=_before_assignment(before),
            limit=limit + 1,
        )
        shown = found[:limit]
        more = len(found) > limit
        return Page(
            items=shown, next=AssignmentPosition(shown[-1].assignment_there) if more else None
        )

    async def require_bot_of(self, bot_id: BotId, tenant_id: TenantId) -> None:
        """Raise NotFound unless the bot belongs to the tenant."""
        if await find_bot_tenant(self.database, bot_id=bot_id) != tenant_id:
            raise NotFound("bot", bot_id)

    async def _search_range(self, end: BotId) -> tuple[BotId, BotId, BotPosition | None]:
        """Return the ids that one search covers, from the first to below the second.

        The third is the end of the next range; None if this is the last one.
        """
        bounds = await find_bot_bounds(self.database)
        oldest, newest = bounds.oldest or 0, bounds.newest or 0
        end = BotId(min(end, newest + 1))
        begin = BotId(end - _SEARCHED_IDS)
        return begin, end, BotPosition(begin) if begin > oldest else None

    async def bot_history(
        self, bot_id: BotId, *, after: EventPosition | None, limit: int
    ) -> Page[HistoryRow, EventPosition]:
        """Return a page of a bot's history, oldest first."""
        rows = await list_bot_history(
            self.database,
            bot_id=bot_id,
            after=0 if after is None else after.history_id,
            limit=limit,
            max_bytes=_MAX_PAGE_BYTES,
        )
        if not rows:
            await self._require_history(bot_id)
        return Page(items=rows, next=_next(rows, lambda row: EventPosition(row.id)))

    async def newest_bot_history(
        self, bot_id: BotId, *, before: NewestEventPosition | None, limit: int
    ) -> Page[HistoryRow, NewestEventPosition]:
        """Return a page of a bot's history, newest first."""
        rows = await list_newest_bot_history(
            self.database,
            bot_id=bot_id,
            before=_ABOVE_ALL_IDS if before is None else before.history_id,
            limit=limit,
            max_bytes=_MAX_PAGE_BYTES,
        )
        if not rows:
            await self._require_history(bot_id)
        return Page(items=rows, next=_next(rows, lambda row: NewestEventPosition(row.id)))

    async def _require_history(self, bot_id: BotId) -> None:
        if not await list_bot_history(
            self.database, bot_id=bot_id, after=0, limit=1, max_bytes=_MAX_PAGE_BYTES
        ):
            raise NotFound("bot", bot_id)

    async def bot_timeline(self, bot_id: BotId) -> list[Bar]:
        """Return a bot's transitions as bars."""
        rows = await list_bot_transitions(self.database, bot_id=bot_id)
        if not rows:
            raise NotFound("bot", bot_id)
        return timeline(rows)

    async def bot_logs(
        self, bot_id: BotId, *, tail: int | None, follow: bool
    ) -> AsyncIterator[bytes]:
        """Return the output of the bot's last run; empty before the first run."""
        run = await find_bot_run(self.database, bot_id=bot_id)
        if run is None:
            raise NotFound("bot", bot_id)
        backend = self.backends.get(run.backend)
        if run.container_id is None or run.assignment_id is None:
            return _no_output()
        current = _no_output()
        if backend is not None:
            current = backend.logs(run.container_id, run.assignment_id, tail=tail, follow=follow)
        return self._output_or_kept(current, bot_id, run.assignment_id, tail)

    async def _output_or_kept(
        self,
        current: AsyncIterator[bytes],
        bot_id: BotId,
        assignment_id: AssignmentId,
        tail: int | None,
    ) -> AsyncIterator[bytes]:
        """Yield the output that the backend has; if it has none any more, the kept end of it."""
        is_empty = True
        try:
            async for part in current:
                is_empty = False
                yield part
        except BackendError:
            if not is_empty or await self._kept_output(bot_id, assignment_id, tail) is None:
                raise
        if is_empty and (kept := await self._kept_output(bot_id, assignment_id, tail)):
            yield kept

    async def _kept_output(
        self, bot_id: BotId, assignment_id: AssignmentId, tail: int | None
    ) -> bytes | None:
        """Return the kept output of a run, the last `tail` lines of it; None if there is none."""
        kept = await get_output(self.database, bot_id=bot_id, assignment_id=assignment_id)
        if kept is None:
            return None
        lines = kept.output.splitlines(keepends=True)
        if tail is None:
            return (b"" if kept.is_whole else _CUT) + kept.output
        return b"".join(lines[max(len(lines) - tail, 0) :])

    async def queue(
        self,
        pool_name: PoolName | None,
        *,
        tenant_id: TenantId | None = None,
        after: QueuePosition | None,
        limit: int,
    ) -> Page[tuple[QueueEntry, int | None], QueuePosition]:
        """Return a page of queued bots, each with its estimated wait in milliseconds."""
        start = after or _BEFORE_THE_QUEUE
        found = await list_queue(
            self.database,
            pool_name=pool_name,
            tenant_id=tenant_id,
            after_pool=start.pool_name,
            after_priority=start.priority,
            after_arrival=start.arrival,
            limit=limit + 1,
        )
        shown = [
            (entry, await self.estimates.wait_ms(entry.pool_name, entry.tenant, entry.position))
            for entry in found[:limit]
        ]
        last = found[limit - 1] if len(found) > limit else None
        return Page(
            items=shown,
            next=QueuePosition(last.pool_name, last.priority, last.arrival) if last else None,
        )

    async def slots(
        self,
        *,
        pool_name: PoolName | None,
        status: SlotStatus | None,
        after: SlotPosition | None,
        limit: int,
    ) -> Page[Slot, SlotPosition]:
        """Return a page of slots, by pool and number."""
        start = after or _BEFORE_ALL_SLOTS
        found = await list_slots(
            self.database,
            pool_name=pool_name,
            status=status,
            after_pool=start.pool_name,
            after_number=start.number,
            limit=limit + 1,
        )
        last = found[limit - 1] if len(found) > limit else None
        return Page(
            items=found[:limit], next=SlotPosition(last.pool_name, last.number) if last else None
        )

    async def slots_with(
        self,
        *,
        container_id: ContainerId | None,
        bot_id: BotId | None,
        pool_name: PoolName | None,
        status: SlotStatus | None,
    ) -> list[Slot]:
        """Return the slot that has a container or a bot now, if the other filters match it."""
        found = await self._slots_of(container_id, bot_id)
        return [
            slot
            for slot in await get_slots(self.database, slot_ids=found)
            if pool_name in (None, slot.pool_name)
            and status in (None, slot.status)
            and bot_id in (None, slot.assigned_bot_id)
        ]

    async def _slots_of(
        self, container_id: ContainerId | None, bot_id: BotId | None
    ) -> list[SlotId]:
        if container_id is not None:
            return await find_slots_of_container(self.database, container_id=container_id)
        assert bot_id is not None
        slot = await find_slot_of_bot(self.database, bot_id=bot_id)
        return [slot.slot_id] if slot else []

    async def slot(self, slot_id: SlotId) -> Slot:
        slots = await get_slots(self.database, slot_ids=[slot_id])
        if not slots:
            raise NotFound("slot", slot_id)
        return slots[0]

    async def slot_history(
        self, slot_id: SlotId, *, before: SlotEventPosition | None, limit: int
    ) -> Page[HistoryRow, SlotEventPosition]:
        """Return a page of a slot's history, newest first, even after the slot was deleted."""
        start = before or SlotEventPosition(_ABOVE_ALL_IDS, AssignmentId(_ABOVE_ALL_IDS))
        rows = await list_slot_history(
            self.database,
            slot_id=slot_id,
            before=start.history_id,
            last_assignment=start.assignment_id,
            limit=limit,
            max_bytes=_MAX_PAGE_BYTES,
        )
        if not rows and before is None:
            raise NotFound("slot", slot_id)
        assignments = [row.assignment_id for row in rows if row.assignment_id is not None]
        oldest = min(assignments, default=start.assignment_id)
        return Page(items=rows, next=_next(rows, lambda row: SlotEventPosition(row.id, oldest)))

    async def slot_assignments(
        self, slot_id: SlotId, *, before: AssignmentPosition | None, limit: int
    ) -> Page[Assignment, AssignmentPosition]:
        """Return a page of a slot's assignments, newest first."""
        found = await list_slot_assignments(
            self.database, slot_id=slot_id, before=_before_assignment(before), limit=limit + 1
        )
        if not found and before is None:
            await self.slot(slot_id)
        shown, more = found[:limit], len(found) > limit
        return Page(items=shown, next=AssignmentPosition(shown[-1].assignment_id) if more else None)

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


def _before_assignment(position: AssignmentPosition | None) -> AssignmentId:
    return AssignmentId(_ABOVE_ALL_IDS) if position is None else position.assignment_id


def _next(
    rows: Sequence[ListedHistoryRow], position_of: Callable[[ListedHistoryRow], P]
) -> P | None:
    """Return where the next page of history begins."""
    return position_of(rows[-1]) if rows and rows[-1].more else None


async def _no_output() -> AsyncIterator[bytes]:
    return
    yield b""
