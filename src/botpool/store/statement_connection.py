"""A connection that runs the SQL files by name, prepared and in one round trip.

It adds methods to psycopg's connection and uses only public calls: raw cursors, pipelines and
prepared statements.
"""

from collections.abc import Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any, TypeAlias

import psycopg
from psycopg import AsyncRawCursor
from psycopg.rows import DictRow

from botpool.store import sessions
from botpool.store.parameter_types import register_dumpers
from botpool.store.statements import positional, sent_text

Call: TypeAlias = tuple[str, Mapping[str, Any]]
"""The name of an SQL file and its parameters."""
Rows: TypeAlias = list[dict[str, Any]]

_BEGIN: Call = (sessions.begin().name, {})
_COMMIT: Call = (sessions.commit().name, {})
_MAX_KEPT_ROWS = 100
"""A cursor keeps its last result; after a larger one, the connection drops the cursor."""


class StatementConnection(psycopg.AsyncConnection[DictRow]):
    @cached_property
    def _idle_cursors(self) -> dict[str, AsyncRawCursor[DictRow]]:
        """One cursor for each statement: a cursor that repeats its query keeps its adapters."""
        return {}

    async def prepare_session(self) -> None:
        """Set the session up. The pool calls this once for each connection."""
        self.prepare_threshold = 0
        self.prepared_max = None
        register_dumpers(self)
        await self.run((sessions.prepare_session().name, {}))

    async def run(self, *calls: Call) -> list[Rows]:
        """Run the calls in order, in one round trip, and return the rows of each.

        Several calls need an open transaction. Raise the error of the first call that fails; the
        server skips the calls after it.
        """
        cursors = [self._take_cursor(name) for name, _ in calls]
        if len(calls) == 1:
            await _execute(cursors[0], *calls[0])
        else:
            async with self.pipeline():
                for cursor, (name, parameters) in zip(cursors, calls, strict=True):
                    await _execute(cursor, name, parameters)
        return [
            await self._fetch(name, cursor)
            for (name, _), cursor in zip(calls, cursors, strict=True)
        ]

    async def run_in_transaction(self, *calls: Call) -> list[Rows]:
        """Run the calls in one transaction and one round trip, commit included.

        A cancelled or failing client sends no commit, so the calls take effect together or not at
        all.
        """
        if len(calls) == 1:
            return await self.run(*calls)
        try:
            _, *answers, _ = await self.run(_BEGIN, *calls, _COMMIT)
        except BaseException:
            with suppress(psycopg.Error):
                await self.rollback()
            raise
        return answers

    def _take_cursor(self, name: str) -> AsyncRawCursor[DictRow]:
        return self._idle_cursors.pop(name, None) or AsyncRawCursor(self)

    async def _fetch(self, name: str, cursor: AsyncRawCursor[DictRow]) -> Rows:
        rows = await cursor.fetchall() if cursor.rownumber is not None else []
        if len(rows) <= _MAX_KEPT_ROWS:
            self._idle_cursors[name] = cursor
        return rows


async def _execute(
    cursor: AsyncRawCursor[DictRow], name: str, parameters: Mapping[str, Any]
) -> None:
    query, names = positional(sent_text(name))
    await cursor.execute(query, [parameters[each] for each in names])
