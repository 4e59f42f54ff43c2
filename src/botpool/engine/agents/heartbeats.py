"""Heartbeats, gathered: a thousand agents cost at most two hundred statements a second.

Each is written before it is answered, and its answer is what that statement read.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from botpool.domain.ids import AssignmentId, BotId
from botpool.engine.runtime.batching import Batcher
from botpool.store.database import Database

_AT_ONCE = 1000
_EVERY_S = 0.005
"""Nobody is in a hurry: the agent has nothing else to do, and silence is counted in minutes."""

Row: TypeAlias = Mapping[str, Any]
_Beat: TypeAlias = tuple[AssignmentId, BotId]


class Heartbeats:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._beats: Batcher[_Beat, Row | None] = Batcher(
            "heartbeats", self._record, max_batch=_AT_ONCE, min_interval_s=_EVERY_S
        )

    async def beat(self, assignment_id: AssignmentId, bot_id: BotId) -> Row | None:
        """What stands of the assignment; None if it is not that bot's."""
        return await self._beats.submit((assignment_id, bot_id))

    async def _record(self, beats: Sequence[_Beat]) -> list[Row | None]:
        rows = await self._database.fetch(
            "record_heartbeats",
            {
                "assignment_ids": [assignment_id for assignment_id, _ in beats],
                "bot_ids": [bot_id for _, bot_id in beats],
            },
        )
        found = {(row["assignment_id"], row["bot_id"]): row for row in rows}
        return [found.get(beat) for beat in beats]
