"""Read-only access to a live system, for the doctor.

Every statement runs in a read-only transaction. The files in `sql/checks` each return the rows that
violate one invariant; tests use the same files.
"""

import secrets
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache
from importlib.resources import files
from typing import Any, Self, TypeAlias, TypeVar

import psycopg
from psycopg.rows import DictRow, dict_row

from botpool.domain.errors import DatabaseUnavailable
from botpool.store.database import Connection
from botpool.store.deadlines import CONNECT_TIMEOUT_S, SOCKET_OPTIONS, Deadline
from botpool.store.doctor import listen_for_doctor, notify_doctor
from botpool.store.failures import unavailable
from botpool.store.maintenance import AppliedMigration, list_migrations
from botpool.store.query import Rows, Statement
from botpool.store.sessions import SessionTimeouts
from botpool.store.statements import statement_text

_CHECKS = files("botpool.store") / "sql" / "checks"
_TIMEOUTS = SessionTimeouts.of(30.0)
_DEADLINE_S = _TIMEOUTS.deadline_s
T = TypeVar("T")

Violation: TypeAlias = Mapping[str, object]
"""A row that violates an invariant; its columns differ from check to check."""


def check_names() -> list[str]:
    """Return the names of the files in `sql/checks`."""
    return [file.name.removesuffix(".sql") for file in _CHECKS.iterdir()]


@cache
def check_statement(name: str) -> str:
    """Return the text of `sql/checks/<name>.sql`."""
    return (_CHECKS / f"{name}.sql").read_text()


class ReadonlyConnection:
    """Two connections that can read, listen and notify, and cannot write."""

    def __init__(self, reading: Connection, listening: Connection) -> None:
        self._reading = reading
        self._listening = listening

    @classmethod
    @asynccontextmanager
    async def connected(cls, url: str) -> AsyncIterator[Self]:
        """Connect, and close both connections at the end."""
        async with AsyncExitStack() as stack:
            reading = await _connect(url)
            stack.push_async_callback(reading.close)
            listening = await _connect(url)
            stack.push_async_callback(listening.close)
            yield cls(reading, listening)

    async def violations(self, check: str, parameters: Mapping[str, Any]) -> list[Violation]:
        """Return the rows that violate the invariant of `sql/checks/<check>.sql`."""
        return list(await self._fetch(check_statement(check), parameters))

    async def query(self, statement: Statement[T]) -> T:
        """Run one statement and return its result."""
        statement.read(await self._fetch(statement_text(statement.name), statement.parameters))
        return statement.result

    async def applied_migrations(self) -> list[AppliedMigration] | None:
        """Return the applied migrations; None if the database has no schema of Botpool."""
        try:
            return await list_migrations(self)
        except DatabaseUnavailable as error:
            if isinstance(error.__cause__, psycopg.errors.UndefinedTable):
                return None
            raise

    async def receives_notifications(self, *, within_s: float) -> bool:
        """Check that a NOTIFY reaches the other connection; a pooler may swallow it."""
        payload = secrets.token_hex(8)
        try:
            with Deadline(self._listening, CONNECT_TIMEOUT_S):
                await self._listening.execute(statement_text(listen_for_doctor.name))
                await self._listening.commit()
            await notify_doctor(self, payload=payload)
            async for notification in self._listening.notifies(timeout=within_s):
                if notification.payload == payload:
                    return True
        except psycopg.Error as error:
            raise _unavailable(error) from error
        return False

    async def _fetch(self, text: str, parameters: Mapping[str, Any]) -> Rows:
        try:
            with Deadline(self._reading, _DEADLINE_S):
                async with self._reading.transaction():
                    cursor = await self._reading.execute(text, parameters)
                    return await cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            raise _unavailable(error) from error


async def _connect(url: str) -> Connection:
    try:
        connection = await psycopg.AsyncConnection[DictRow].connect(
            url,
            row_factory=dict_row,
            application_name="botpool doctor",
            **SOCKET_OPTIONS,
        )
    except psycopg.Error as error:
        raise _unavailable(error) from error
    try:
        prepare = _TIMEOUTS.statement()
        with Deadline(connection, CONNECT_TIMEOUT_S):
            await connection.set_read_only(True)
            await connection.execute(statement_text(prepare.name), prepare.parameters)
            await connection.commit()
    except psycopg.Error as error:
        await connection.close()
        raise _unavailable(error) from error
    return connection


def _unavailable(error: psycopg.Error) -> DatabaseUnavailable:
    """The doctor reports every error: a check that cannot run is a finding, not a crash."""
    return unavailable(error) or DatabaseUnavailable.after(error)
