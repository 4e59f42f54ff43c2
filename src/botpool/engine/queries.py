"""The reading side: what users and operators ask for. ChangeStream nothing."""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass

from botpool.backends.protocol import Backend
from botpool.domain.errors import NotFound
from botpool.domain.ids import BotId, PoolName, SlotId
from botpool.domain.records import Assignment, Bot, HistoryRow, Pool, PoolSample, QueueEntry, Slot
from botpool.domain.states import BotStatus, SlotStatus
from botpool.domain.timeline import Bar, timeline
from botpool.engine.admission.estimates import Estimates
from botpool.store.database import Database
from botpool.store.rows import to_assignment, to_bot, to_pool, to_slot

_QUEUE_SHOWN = 1000
_HISTORY_SHOWN = 500
_ASSIGNMENTS_SHOWN = 200
_SEARCHED = 100_000
"""How many bots a search looks through before it answers: some 0.2 s."""
_NO_ID = BotId(2**63 - 1)
"""Above every bot's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BotPage:
    """Bots, newest first. What is `before` follows; None: nothing does.

    A search may find less than a page in the part that it has looked through.
    """

    bots: Sequence[Bot]
    before: BotId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Queries:
    database: Database
    backends: Mapping[str, Backend]
    estimates: Estimates

    async def bots(
        self,
        *,
        status: BotStatus | None,
        pool_name: str | None,
        search: str | None,
        before: BotId | None,
        limit: int,
    ) -> BotPage:
        since, rest = BotId(0), None
        if search is not None:
            before, since, rest = await self._to_search(before)
        rows = await self.database.fetch(
            "list_bots",
            {
                "statuses": [*BotStatus] if status is None else [status],
                "pool_name": pool_name,
                "search": search,
                "before": _NO_ID if before is None else before,
                "since": since,
                "limit": limit + 1,
            },
        )
        bots = [to_bot(row) for row in rows[:limit]]
        return BotPage(bots=bots, before=bots[-1].id if len(rows) > limit else rest)

    async def _to_search(self, before: BotId | None) -> tuple[BotId, BotId, BotId | None]:
        """The part to look through, as `before` and `since`, and where the next one begins."""
        bounds = await self.database.fetch_one("find_bot_bounds", {})
        assert bounds is not None, "an aggregate has always a row"
        oldest, newest = bounds["oldest"] or 0, bounds["newest"] or 0
        end = newest + 1 if before is None else min(before, newest + 1)
        begin = end - _SEARCHED
        return BotId(end), BotId(begin), BotId(begin) if begin > oldest else None

    async def bot_history(self, bot_id: BotId) -> list[HistoryRow]:
        rows = await self.database.fetch("list_bot_history", {"bot_id": bot_id})
        if not rows:
            raise NotFound("bot", bot_id)
        return [HistoryRow(**row) for row in rows]

    async def bot_timeline(self, bot_id: BotId) -> list[Bar]:
        return timeline(await self.bot_history(bot_id))

    async def bot_logs(
        self, bot_id: BotId, *, tail: int | None, follow: bool
    ) -> AsyncIterator[bytes]:
        """Output of the bot's last run; nothing while it has not run."""
        run = await self.database.fetch_one("find_bot_run", {"bot_id": bot_id})
        if run is None:
            raise NotFound("bot", bot_id)
        backend = self.backends.get(run["backend"])
        if backend is None or run["container_id"] is None:
            return _nothing()
        return backend.logs(run["container_id"], run["assignment_id"], tail=tail, follow=follow)

    async def queue(self, pool_name: str | None) -> list[tuple[QueueEntry, int | None]]:
        """Who waits, each with its estimate."""
        rows = await self.database.fetch(
            "list_queue", {"pool_name": pool_name, "limit": _QUEUE_SHOWN}
        )
        entries = [QueueEntry(**row) for row in rows]
        return [
            (entry, await self.estimates.wait_ms(entry.pool_name, entry.position))
            for entry in entries
        ]

    async def slots(self, *, pool_name: str | None, status: SlotStatus | None) -> list[Slot]:
        rows = await self.database.fetch(
            "list_slots", {"pool_name": pool_name, "status": status, "slot_id": None}
        )
        return [to_slot(row) for row in rows]

    async def slot(self, slot_id: SlotId) -> Slot:
        rows = await self.database.fetch(
            "list_slots", {"pool_name": None, "status": None, "slot_id": slot_id}
        )
        if not rows:
            raise NotFound("slot", slot_id)
        return to_slot(rows[0])

    async def slot_history(self, slot_id: SlotId) -> list[HistoryRow]:
        rows = await self.database.fetch(
            "list_slot_history", {"slot_id": slot_id, "limit": _HISTORY_SHOWN}
        )
        if not rows:
            raise NotFound("slot", slot_id)
        return [HistoryRow(**row) for row in rows]

    async def slot_assignments(self, slot_id: SlotId) -> list[Assignment]:
        rows = await self.database.fetch(
            "list_slot_assignments", {"slot_id": slot_id, "limit": _ASSIGNMENTS_SHOWN}
        )
        if not rows:
            await self.slot(slot_id)
        return [to_assignment(row) for row in rows]

    async def pool_samples(self, pool_name: PoolName, minutes: int) -> list[PoolSample]:
        """The last minutes, oldest first; the present one as it stands so far."""
        rows = await self.database.fetch(
            "list_pool_samples", {"pool_name": pool_name, "minutes": minutes}
        )
        if not rows:
            raise NotFound("pool", pool_name)
        return [PoolSample(**row) for row in rows]

    async def pools(self, pool_name: PoolName | None = None) -> list[Pool]:
        rows = await self.database.fetch("list_pools", {"pool_name": pool_name})
        if pool_name is not None and not rows:
            raise NotFound("pool", pool_name)
        return [to_pool(row) for row in rows]


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""
