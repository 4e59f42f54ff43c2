"""A connection that runs the SQL files by name, prepared and in one round trip.

It adds methods to psycopg's connection and uses only public calls: raw cursors, pipelines and
prepared statements.
"""

from contextlib import suppress
from functools import cached_property
from typing import Any

import psycopg
from psycopg import AsyncRawCursor
from psycopg.rows import DictRow

from botpool.store import sessions
from botpool.store.database_epochs import follow_epoch
from botpool.store.parameter_types import register_dumpers
from botpool.store.query import Rows, Statement
from botpool.store.sessions import SessionTimeouts
from botpool.store.statements import positional, sent_text

_BEGIN = sessions.begin.statement()
_COMMIT = sessions.commit.statement()
_MAX_KEPT_ROWS = 100
"""A cursor keeps its last result; after a larger one, the connection drops the cursor."""


class StatementConnection(psycopg.AsyncConnection[DictRow]):
    @cached_property
    def _idle_cursors(self) -> dict[str, AsyncRawCursor[DictRow]]:
        """One cursor for each statement: a cursor that repeats its query keeps its adapters."""
        return {}

    generation = 0
    """Connections of one generation were opened between the same two failures."""

    async def prepare_session(self, timeouts: SessionTimeouts) -> None:
        """Set the session up, once for each connection."""
        self.prepare_threshold = 0
        self.prepared_max = None
        register_dumpers(self)
        await self.run(timeouts.statement())
        await self._follow_epoch()

    async def _follow_epoch(self) -> None:
        """Begin a new epoch before the first statement on a restored or promoted database."""
        with suppress(psycopg.errors.UndefinedFunction):  # a database without Botpool's schema
            await self.run(follow_epoch.statement())

    async def run(self, *statements: Statement[Any]) -> list[Rows]:
        """Run the statements in order, in one round trip, and return the rows of each.

        Several statements need an open transaction. Raise the error of the first one that fails;
        the server skips those after it.
        """
        cursors = [self._take_cursor(statement.name) for statement in statements]
        if len(statements) == 1:
            await _execute(cursors[0], statements[0])
        else:
            async with self.pipeline():
                for cursor, statement in zip(cursors, statements, strict=True):
                    await _execute(cursor, statement)
        return [
            await self._fetch(statement.name, cursor)
            for statement, cursor in zip(statements, cursors, strict=True)
        ]

    async def run_in_transaction(self, *statements: Statement[Any]) -> list[Rows]:
        """Run the statements in one transaction and one round trip, commit included.

        A cancelled or failing client sends no commit, so the statements take effect together or
        not at all.
        """
        if len(statements) == 1:
            return await self.run(*statements)
        try:
            _, *answers, _ = await self.run(_BEGIN, *statements, _COMMIT)
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


async def _execute(cursor: AsyncRawCursor[DictRow], statement: Statement[Any]) -> None:
    text, names = positional(sent_text(statement.name))
    await cursor.execute(text, [statement.parameters[each] for each in names])
