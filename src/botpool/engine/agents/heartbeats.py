"""Recording of heartbeats, batched: many agents share one statement.

A heartbeat is committed before its response, and the response comes from the same statement.
"""

from collections.abc import Sequence
from typing import TypeAlias

from botpool.domain.ids import AssignmentId, BotId
from botpool.engine.runtime.batching import Batcher
from botpool.store.assignments import Heartbeat, record_heartbeats
from botpool.store.database import Database

_MAX_BATCH = 1000
_MIN_INTERVAL_S = 0.005
"""Agents can wait for this: a heartbeat counts as lost only after minutes."""

_Key: TypeAlias = tuple[AssignmentId, BotId]


class Heartbeats:
    """Records heartbeats in batches."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._batcher: Batcher[_Key, Heartbeat | None] = Batcher(
            "heartbeats", self._record, max_batch=_MAX_BATCH, min_interval_s=_MIN_INTERVAL_S
        )

    async def record(self, assignment_id: AssignmentId, bot_id: BotId) -> Heartbeat | None:
        """Record a heartbeat; None if the assignment is not one of this bot."""
        return await self._batcher.submit((assignment_id, bot_id))

    async def _record(self, keys: Sequence[_Key]) -> list[Heartbeat | None]:
        heartbeats = await record_heartbeats(
            self._database,
            assignment_ids=[assignment_id for assignment_id, _ in keys],
            bot_ids=[bot_id for _, bot_id in keys],
        )
        by_key = {(each.assignment_id, each.bot_id): each for each in heartbeats}
        return [by_key.get(key) for key in keys]
