"""Connections, transactions and the translation of their failures.

`query` commits one statement, `commit` and `transact` run several in one transaction. Each
statement has its own snapshot (READ COMMITTED), so a count that follows a lock sees the rows that
were committed before the lock was granted.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias, TypeVar

import psycopg
import psycopg_pool
import stamina
from psycopg.rows import DictRow, dict_row

from botpool.domain.errors import DatabaseUnavailable
from botpool.store.maintenance import AppliedMigration, list_migrations
from botpool.store.query import Rows, Statement
from botpool.store.sessions import listen
from botpool.store.statement_connection import StatementConnection
from botpool.store.statements import sent_text

Connection: TypeAlias = psycopg.AsyncConnection[DictRow]
T = TypeVar("T")

_UNAVAILABLE = (
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg_pool.PoolTimeout,
    psycopg_pool.PoolClosed,
)
_ROLLED_BACK = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)
"""The server rolled the transaction back, so running it again is safe."""


class Transaction:
    """An open transaction."""

    def __init__(self, connection: StatementConnection) -> None:
        self._connection = connection

    async def run(self, statements: Sequence[Statement[Any]]) -> None:
        """Run statements in one round trip and set their results; the transaction stays open."""
        _read_results(statements, await self._connection.run(*statements))


class Database:
    """A pool of connections to one PostgreSQL."""

    def __init__(self, url: str, *, max_connections: int = 16) -> None:
        self.url = url
        self._pool: psycopg_pool.AsyncConnectionPool[StatementConnection] = (
            psycopg_pool.AsyncConnectionPool(
                url,
                connection_class=StatementConnection,
                kwargs={
                    "autocommit": True,
                    "row_factory": dict_row,
                    "application_name": "botpool",
                    # Independent of the database's encoding: parameters are sent as UTF-8.
                    "client_encoding": "utf8",
                    "connect_timeout": 5,
                    # Keep idle connections alive through firewalls, and detect a dead server
                    # before a statement needs the connection.
                    "keepalives_idle": 30,
                    "keepalives_interval": 10,
                    "keepalives_count": 3,
                },
                configure=StatementConnection.prepare_session,
                min_size=2,
                max_size=max_connections,
                # Longer than a burst lasts: waiting for a connection is overload, not an outage.
                timeout=30,
                reconnect_timeout=10,
                open=False,
            )
        )
        self._connection_check: asyncio.Task[None] | None = None
        self._in_progress = 0

    def is_idle(self) -> bool:
        """Return whether this process has no statement in progress."""
        return self._in_progress == 0

    async def open(self) -> None:
        """Connect once and report why that fails, then open the pool.

        The pool itself would retry for seconds and not report the reason.
        """
        try:
            connection = await psycopg.AsyncConnection.connect(self.url, connect_timeout=5)
        except _UNAVAILABLE as error:
            raise DatabaseUnavailable.after(error) from error
        await connection.close()
        await self._pool.open()

    async def close(self) -> None:
        if self._connection_check is not None:
            await asyncio.wait([self._connection_check], timeout=1)
            self._connection_check.cancel()
        await self._pool.close()

    async def applied_migrations(self) -> list[AppliedMigration] | None:
        """Return the migrations of the schema, or None when the database has no schema."""
        try:
            return await list_migrations(self)
        except psycopg.errors.UndefinedTable:
            return None

    async def transact(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Call `work` in one transaction and roll back when it raises.

        After a deadlock the transaction is repeated, so `work` may be called again.
        """

        async def work_in_transaction(connection: StatementConnection) -> T:
            async with connection.transaction():
                return await work(Transaction(connection))

        return await self._run(work_in_transaction)

    async def query(self, statement: Statement[T]) -> T:
        """Run and commit one statement and return its result."""
        await self.commit([statement])
        return statement.result

    async def commit(self, statements: Sequence[Statement[Any]]) -> None:
        """Run statements in one transaction and one round trip, commit included.

        `transact` needs one more round trip for the commit and holds the locks of the statements
        that much longer.
        """
        rows = await self._run(lambda connection: connection.run_in_transaction(*statements))
        _read_results(statements, rows)

    async def listener(self) -> Connection:
        """Open a separate connection that receives notifications. The caller closes it."""
        try:
            connection = await psycopg.AsyncConnection[DictRow].connect(
                self.url, autocommit=True, row_factory=dict_row, connect_timeout=5
            )
            await connection.execute(sent_text(listen.name))
        except _UNAVAILABLE as error:
            raise DatabaseUnavailable.after(error) from error
        return connection

    async def _run(self, work: Callable[[StatementConnection], Awaitable[T]]) -> T:
        """Call `work` with a connection, again after the server rolled it back."""
        try:
            return await self._run_once(work)
        except _ROLLED_BACK:
            pass  # Rare, so only then pay for a retry context.
        async for attempt in stamina.retry_context(on=_ROLLED_BACK, attempts=5, wait_initial=0.01):
            with attempt:
                return await self._run_once(work)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _run_once(self, work: Callable[[StatementConnection], Awaitable[T]]) -> T:
        """Call `work` with a connection and translate connection failures.

        `getconn` and `putconn` suffice: the pool's `connection()` would also ask for a commit.
        """
        self._in_progress += 1
        try:
            connection = await self._pool.getconn()
            try:
                return await work(connection)
            except asyncio.CancelledError:
                # A cancellation while a pipeline reads an error leaves results unread, which the
                # next statement on this connection would receive. The pool replaces it.
                await connection.close()
                raise
            except BaseException:
                if connection.closed:
                    self._check_idle_connections()
                raise
            finally:
                await self._pool.putconn(connection)
        except _ROLLED_BACK:
            raise
        except _UNAVAILABLE as error:
            raise DatabaseUnavailable.after(error) from error
        finally:
            self._in_progress -= 1

    def _check_idle_connections(self) -> None:
        """Replace dead idle connections now: a restarted server has ended all of them."""
        if self._connection_check is None or self._connection_check.done():
            self._connection_check = asyncio.create_task(
                self._pool.check(), name="check idle connections"
            )


def _read_results(statements: Sequence[Statement[Any]], rows: Sequence[Rows]) -> None:
    for statement, returned in zip(statements, rows, strict=True):
        statement.read(returned)
