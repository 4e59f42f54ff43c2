"""The reading side: what users and operators ask for. Changes nothing."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from botpool.backends.protocol import Backend
from botpool.domain.errors import NotFound
from botpool.domain.ids import BotId, Platform, SlotId
from botpool.domain.records import Assignment, Bot, HistoryRow, Pool, PoolMinute, QueueEntry, Slot
from botpool.domain.states import BotStatus, SlotStatus
from botpool.domain.timeline import Bar, timeline
from botpool.engine.estimates import Estimates
from botpool.store.database import Database
from botpool.store.rows import to_assignment, to_bot, to_pool, to_slot

_QUEUE_SHOWN = 1000
_HISTORY_SHOWN = 500
_ASSIGNMENTS_SHOWN = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    database: Database
    backends: Mapping[str, Backend]
    estimates: Estimates

    async def bots(
        self,
        *,
        status: BotStatus | None,
        platform: str | None,
        search: str | None,
        before: BotId | None,
        limit: int,
    ) -> list[Bot]:
        rows = await self.database.fetch(
            "list_bots",
            {
                "status": status,
                "platform": platform,
                "search": search,
                "before": before,
                "limit": limit,
            },
        )
        return [to_bot(row) for row in rows]

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

    async def queue(self, platform: str | None) -> list[tuple[QueueEntry, int | None]]:
        """Who waits, each with its estimate."""
        rows = await self.database.fetch(
            "list_queue", {"platform": platform, "limit": _QUEUE_SHOWN}
        )
        entries = [QueueEntry(**row) for row in rows]
        return [
            (entry, await self.estimates.wait_ms(entry.platform, entry.position))
            for entry in entries
        ]

    async def slots(self, *, platform: str | None, status: SlotStatus | None) -> list[Slot]:
        rows = await self.database.fetch(
            "list_slots", {"platform": platform, "status": status, "slot_id": None}
        )
        return [to_slot(row) for row in rows]

    async def slot(self, slot_id: SlotId) -> Slot:
        rows = await self.database.fetch(
            "list_slots", {"platform": None, "status": None, "slot_id": slot_id}
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

    async def pool_minutes(self, platform: Platform, minutes: int) -> list[PoolMinute]:
        """The last minutes, oldest first; the present one as it stands so far."""
        rows = await self.database.fetch(
            "list_pool_minutes", {"platform": platform, "minutes": minutes}
        )
        if not rows:
            raise NotFound("pool", platform)
        return [PoolMinute(**row) for row in rows]

    async def pools(self, platform: Platform | None = None) -> list[Pool]:
        rows = await self.database.fetch("list_pools", {"platform": platform})
        if platform is not None and not rows:
            raise NotFound("pool", platform)
        return [to_pool(row) for row in rows]


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""
