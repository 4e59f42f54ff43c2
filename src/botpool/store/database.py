"""Connections, transactions and the translation of their failures.

Every statement is named: the name is its file, and the one word by which tests put a crash before
or after it. Single statements commit by themselves. Statements that belong together travel in one
pipeline, each with a snapshot of its own (READ COMMITTED), which is what makes a lock in one and a
count in the next correct.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias, TypeVar

import psycopg
import psycopg_pool
import stamina
from psycopg.rows import DictRow, dict_row

from botpool.domain.errors import DatabaseUnavailable
from botpool.store.named_connection import Call, NamedConnection, Rows
from botpool.store.statement import Pipeline, Statement
from botpool.store.statements import sent_text
from botpool.store.warm_pool import WarmPool

__all__ = ["Call", "Connection", "Database", "Rows", "Transaction"]

Connection: TypeAlias = psycopg.AsyncConnection[DictRow]
T = TypeVar("T")
R = TypeVar("R")

_UNAVAILABLE = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg_pool.PoolTimeout,
    psycopg_pool.PoolClosed,
)
# The server has undone these transactions by itself: doing them again is safe.
_UNDONE = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)


class Transaction:
    """Statements that happen together or not at all."""

    def __init__(self, connection: NamedConnection) -> None:
        self._connection = connection

    async def send(self, *calls: Call) -> list[Rows]:
        """Run the calls in order, in one round trip, and give the rows of each."""
        return await self._connection.run(*calls)

    async def run(self, pipeline: Pipeline) -> None:
        """Run a pipeline in one round trip and fill its results; the transaction stays open."""
        calls = [(each.name, each.parameters) for each in pipeline.statements]
        pipeline.fill(await self.send(*calls))


class Database:
    """A pool of connections to one PostgreSQL."""

    def __init__(self, url: str, *, max_connections: int = 16) -> None:
        self.url = url
        self._pool: WarmPool[NamedConnection] = WarmPool(
            url,
            connection_class=NamedConnection,
            kwargs={
                "autocommit": True,
                "row_factory": dict_row,
                "application_name": "botpool",
                # Whatever the database's own is: parameters are sent so.
                "client_encoding": "utf8",
                "connect_timeout": 5,
                # Those at rest may rest for long: nobody in between may take them for forgotten,
                # and one whose other end is gone must be known before it is needed.
                "keepalives_idle": 30,
                "keepalives_interval": 10,
                "keepalives_count": 3,
            },
            configure=_prepare_session,
            min_size=2,
            max_size=max_connections,
            # Longer than a burst lasts: waiting for a connection is overload, not an outage.
            timeout=30,
            reconnect_timeout=10,
            open=False,
        )
        self._examination: asyncio.Task[None] | None = None
        self._under_way = 0

    def is_idle(self) -> bool:
        """Has the server nothing of ours to do?"""
        return self._under_way == 0

    async def open(self) -> None:
        """Connect once by hand: the pool would try for seconds, and not say why it failed."""
        try:
            connection = await psycopg.AsyncConnection.connect(self.url, connect_timeout=5)
        except _UNAVAILABLE as error:
            raise DatabaseUnavailable(_first_line(error)) from error
        await connection.close()
        await self._pool.open()

    async def close(self) -> None:
        if self._examination is not None:
            await asyncio.wait([self._examination], timeout=1)
            self._examination.cancel()
        await self._pool.close()

    async def applied_migrations(self) -> list[str] | None:
        """The schema's migrations; None when the database has no schema of ours."""
        try:
            row = await self.fetch_one("check_ready", {})
        except psycopg.errors.UndefinedTable:
            return None
        return row["migrations"] if row else None

    async def fetch(self, name: str, parameters: Mapping[str, Any]) -> Rows:
        """Run one statement, committed by itself, and give its rows."""
        (rows,) = await self._done(lambda connection: connection.run((name, parameters)))
        return rows

    async def fetch_one(self, name: str, parameters: Mapping[str, Any]) -> dict[str, Any] | None:
        rows = await self.fetch(name, parameters)
        return rows[0] if rows else None

    async def transact(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Do the work in one transaction; an exception undoes it. It may be called again."""

        async def together(connection: NamedConnection) -> T:
            async with connection.transaction():
                return await work(Transaction(connection))

        return await self._done(together)

    async def atomically(self, *calls: Call) -> list[Rows]:
        """Run the calls in one transaction and one round trip, its commit included.

        Not `connection.transaction()`: it would wait for the answers before the commit, and hold
        the locks of these statements for one more round trip.
        """
        return await self._done(lambda connection: connection.run(*calls))

    async def query(self, statement: Statement[R]) -> list[R]:
        """Run one statement, committed on its own, and return its records."""
        rows = await self.fetch(statement.name, statement.parameters)
        return [statement.record(row) for row in rows]

    async def query_one(self, statement: Statement[R]) -> R | None:
        """Run one statement and return its first record, or None."""
        records = await self.query(statement)
        return records[0] if records else None

    async def commit(self, pipeline: Pipeline) -> None:
        """Run a pipeline in one transaction and one round trip, and fill its results."""
        calls = [(each.name, each.parameters) for each in pipeline.statements]
        pipeline.fill(await self.atomically(*calls))

    async def listener(self) -> Connection:
        """A connection of its own that hears the other replicas. The caller closes it."""
        try:
            connection = await psycopg.AsyncConnection[DictRow].connect(
                self.url, autocommit=True, row_factory=dict_row, connect_timeout=5
            )
            await connection.execute(sent_text("listen"))
        except _UNAVAILABLE as error:
            raise DatabaseUnavailable(_first_line(error)) from error
        return connection

    async def _done(self, work: Callable[[NamedConnection], Awaitable[T]]) -> T:
        """Do the work on a connection, and again if the server has undone it."""
        try:
            return await self._tried(work)
        except _UNDONE:
            pass  # Rare: only then is it worth what a retrying context costs.
        async for attempt in stamina.retry_context(on=_UNDONE, attempts=5, wait_initial=0.01):
            with attempt:
                return await self._tried(work)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _tried(self, work: Callable[[NamedConnection], Awaitable[T]]) -> T:
        """The pool undoes what a connection comes back with, or closes it.

        Not by its `connection()`, which is also a context within a context that asks for a commit:
        a tenth of the time of a statement, and ours are committed.
        """
        self._under_way += 1
        try:
            connection = await self._pool.getconn()
            try:
                return await work(connection)
            finally:
                if connection.closed:
                    self._examine_others()
                await self._pool.putconn(connection)
        except _UNDONE:
            raise
        except _UNAVAILABLE as error:
            raise DatabaseUnavailable(_first_line(error)) from error
        finally:
            self._under_way -= 1

    def _examine_others(self) -> None:
        """What ended one connection has perhaps ended those at rest: found now, not by a burst."""
        if self._examination is None or self._examination.done():
            self._examination = asyncio.create_task(self._pool.check(), name="examine connections")


async def _prepare_session(connection: NamedConnection) -> None:
    await connection.run(("prepare_session", {}))


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
