"""Heartbeats, gathered: those that wait while one statement is under way go in the next.

A lone heartbeat waits for nobody. Under load a statement carries as many as came in the meantime,
so that a thousand agents cost some dozens of statements a second, not a thousand. Each is written
before it is answered, and its answer is what that statement read.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from botpool.domain.ids import AssignmentId, BotId
from botpool.store.database import Database

_AT_ONCE = 1000

Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beat:
    assignment_id: AssignmentId
    bot_id: BotId
    answer: "asyncio.Future[Row | None]"


@dataclass(slots=True, kw_only=True)
class Heartbeats:
    database: Database
    _waiting: list[_Beat] = field(default_factory=list)
    _writing: asyncio.Task[None] | None = None

    async def beat(self, assignment_id: AssignmentId, bot_id: BotId) -> Row | None:
        """What stands of the assignment; None if it is not that bot's."""
        answer = asyncio.get_running_loop().create_future()
        self._waiting.append(_Beat(assignment_id=assignment_id, bot_id=bot_id, answer=answer))
        if self._writing is None or self._writing.done():
            self._writing = asyncio.create_task(self._write(), name="heartbeats")
        row: Row | None = await answer
        return row

    async def _write(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting[:_AT_ONCE], self._waiting[_AT_ONCE:]
            try:
                rows = await self.database.fetch(
                    "record_heartbeats",
                    {
                        "assignment_ids": [beat.assignment_id for beat in batch],
                        "bot_ids": [beat.bot_id for beat in batch],
                    },
                )
            except BaseException as error:
                # Nobody may wait for an answer that does not come.
                _fail(batch, error)
                if not isinstance(error, Exception):
                    _fail(self._waiting, error)
                    raise
                continue
            found = {(row["assignment_id"], row["bot_id"]): row for row in rows}
            for beat in batch:
                if not beat.answer.done():
                    beat.answer.set_result(found.get((beat.assignment_id, beat.bot_id)))


def _fail(beats: list[_Beat], error: BaseException) -> None:
    for beat in beats:
        if beat.answer.done():
            continue
        if isinstance(error, Exception):
            beat.answer.set_exception(error)
        else:
            beat.answer.cancel()
