"""Two connections for whoever examines a live system: all they can do is read, listen and notify.

Each statement is a read-only transaction, so nothing that is asked here can change anything. The
files in `sql/checks` each give the rows that break one rule; tests ask the same files.
"""

import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from importlib.resources import files
from typing import Any, Self

import psycopg
from psycopg.rows import DictRow, dict_row

from botpool.domain.errors import DatabaseUnavailable
from botpool.store.database import Connection, Rows
from botpool.store.statements import statement

_CHECKS = files("botpool.store") / "sql" / "checks"
_CONNECT_TIMEOUT_S = 5


@cache
def check_statement(name: str) -> str:
    """The text of `sql/checks/<name>.sql`."""
    return (_CHECKS / f"{name}.sql").read_text()


class ReadonlyConnection:
    def __init__(self, asking: Connection, listening: Connection) -> None:
        self._asking = asking
        self._listening = listening

    @classmethod
    @asynccontextmanager
    async def connected(cls, url: str) -> AsyncIterator[Self]:
        async with AsyncExitStack() as stack:
            asking = await _connect(url)
            stack.push_async_callback(asking.close)
            listening = await _connect(url)
            stack.push_async_callback(listening.close)
            yield cls(asking, listening)

    async def broken(self, check: str, parameters: Mapping[str, Any]) -> Rows:
        """The rows that break the rule of `sql/checks/<check>.sql`."""
        return await self._ask(check_statement(check), parameters)

    async def fetch(self, name: str, parameters: Mapping[str, Any]) -> Rows:
        return await self._ask(statement(name), parameters)

    async def applied_migrations(self) -> list[str] | None:
        """The schema's migrations; None when the database has no schema of ours."""
        try:
            rows = await self.fetch("list_migrations", {})
        except DatabaseUnavailable as error:
            if isinstance(error.__cause__, psycopg.errors.UndefinedTable):
                return None
            raise
        return list(rows[0]["migrations"])

    async def hears_notices(self, *, within_s: float) -> bool:
        """Whether what one connection says reaches the other: a pooler between may swallow it."""
        word = secrets.token_hex(8)
        try:
            await self._listening.execute(statement("listen_for_doctor"))
            await self._listening.commit()
            await self._ask(statement("notify_doctor"), {"word": word})
            async for notice in self._listening.notifies(timeout=within_s):
                if notice.payload == word:
                    return True
        except psycopg.Error as error:
            raise DatabaseUnavailable(_first_line(error)) from error
        return False

    async def _ask(self, text: str, parameters: Mapping[str, Any]) -> Rows:
        try:
            async with self._asking.transaction():
                cursor = await self._asking.execute(text, parameters)
                return await cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise DatabaseUnavailable(_first_line(error)) from error


async def _connect(url: str) -> Connection:
    try:
        connection = await psycopg.AsyncConnection[DictRow].connect(
            url,
            row_factory=dict_row,
            application_name="botpool doctor",
            connect_timeout=_CONNECT_TIMEOUT_S,
        )
        await connection.set_read_only(True)
        await connection.execute(statement("prepare_session"))
        await connection.commit()
    except psycopg.Error as error:
        raise DatabaseUnavailable(_first_line(error)) from error
    return connection


def _first_line(error: psycopg.Error) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
