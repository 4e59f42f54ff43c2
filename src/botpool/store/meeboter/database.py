"""A connection to Meeboter's database."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from importlib.resources import files
from typing import Self, TypeVar

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from botpool.domain.errors import ImportRefused
from botpool.store.database import Connection
from botpool.store.deadlines import SOCKET_OPTIONS, Deadline
from botpool.store.meeboter.queries import list_columns
from botpool.store.meeboter.views import VIEWS, create_statement
from botpool.store.query import Statement

_SQL = files("botpool.store.meeboter") / "sql"
_STATEMENT_TIMEOUT_S = 30.0
T = TypeVar("T")


@cache
def _statement_text(name: str) -> str:
    return (_SQL / f"{name}.sql").read_text()


class MeeboterDatabase:
    """Runs the queries of `queries.py`; each statement is a transaction of its own."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @classmethod
    @asynccontextmanager
    async def connected(cls, url: str) -> AsyncIterator[Self]:
        """Connect, and create the views that the queries use in this session."""
        try:
            connection = await psycopg.AsyncConnection.connect(
                url,
                row_factory=dict_row,
                autocommit=True,
                application_name="botpool import",
                **SOCKET_OPTIONS,
            )
        except psycopg.Error as error:
            raise ImportRefused(f"--database: {_first_line(error)}") from error
        async with connection:
            database = cls(connection)
            for view in VIEWS:
                columns = await list_columns(database, table=view.table)
                await database._execute(create_statement(view, columns))
            yield database

    async def query(self, statement: Statement[T]) -> T:
        """Run and commit one statement and return its result."""
        text = _statement_text(statement.name)
        statement.read(await self._execute(text, dict(statement.parameters)))
        return statement.result

    async def _execute(
        self, text: str | sql.Composed, parameters: dict[str, object] | None = None
    ) -> list[dict[str, object]]:
        try:
            with Deadline(self._connection, _STATEMENT_TIMEOUT_S):
                cursor = await self._connection.execute(text, parameters)
                return await cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise ImportRefused(f"Meeboter's database: {_first_line(error)}") from error


def _first_line(error: psycopg.Error) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
