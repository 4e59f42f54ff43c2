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
from psycopg.sql import SQL, Identifier

from botpool.domain.errors import DatabaseUnavailable
from botpool.store.deadlines import CONNECT_TIMEOUT_S, SOCKET_OPTIONS, Deadline
from botpool.store.failures import FAILURES, translated_failures, unavailable
from botpool.store.maintenance import AppliedMigration, list_migrations
from botpool.store.query import Rows, Statement
from botpool.store.sessions import SessionTimeouts, listen
from botpool.store.statement_connection import StatementConnection
from botpool.store.statements import sent_text

Connection: TypeAlias = psycopg.AsyncConnection[DictRow]
T = TypeVar("T")

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

    def __init__(
        self, url: str, *, max_connections: int = 16, statement_timeout_s: float = 30.0
    ) -> None:
        """Connect to `url`.

        The server ends a statement after `statement_timeout_s`; a little later this process gives
        up on the connection.
        """
        self.url = url
        self._session = SessionTimeouts.of(statement_timeout_s)
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
                    **SOCKET_OPTIONS,
                },
                configure=self._prepare,
                min_size=2,
                max_size=max_connections,
                # Longer than a burst lasts: waiting for a connection is overload, not an outage.
                timeout=max(statement_timeout_s, CONNECT_TIMEOUT_S),
                reconnect_timeout=10,
                open=False,
            )
        )
        self._generation = 0
        self.on_failure: Callable[[DatabaseUnavailable], None] = lambda _: None
        """Called with each failure of the database."""
        self._in_progress = 0

    def is_idle(self) -> bool:
        """Return whether this process has no statement in progress."""
        return self._in_progress == 0

    async def open(self) -> None:
        """Connect once and report why that fails, then open the pool.

        The pool itself would retry for seconds and not report the reason.
        """
        with translated_failures():
            connection = await psycopg.AsyncConnection.connect(self.url, **SOCKET_OPTIONS)
        await connection.close()
        await self._pool.open()

    async def close(self) -> None:
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

    async def rehearse(self, statement: Statement[Any]) -> None:
        """Run one statement and roll it back."""

        async def work(connection: StatementConnection) -> None:
            async with connection.transaction(force_rollback=True):
                await connection.run(statement)

        await self._run(work)

    async def listener(self, channel: str | None = None) -> Connection:
        """Open a separate connection that receives notifications. The caller closes it.

        `channel` is a channel of this replica's own, beside the wake-ups of all.
        """
        with translated_failures():
            connection = await psycopg.AsyncConnection[DictRow].connect(
                self.url, autocommit=True, row_factory=dict_row, **SOCKET_OPTIONS
            )
        try:
            await self.listen(connection)
            if channel is not None:
                with translated_failures(), Deadline(connection, CONNECT_TIMEOUT_S):
                    await connection.execute(SQL("LISTEN {}").format(Identifier(channel)))
        except BaseException:
            await connection.close()
            raise
        return connection

    async def listen(self, connection: Connection) -> None:
        """Receive notifications on a connection. Repeated, this checks that the server answers."""
        with translated_failures(), Deadline(connection, CONNECT_TIMEOUT_S):
            await connection.execute(sent_text(listen.name))

    async def _run(self, work: Callable[[StatementConnection], Awaitable[T]]) -> T:
        """Call `work` with a connection, again after the server rolled it back."""
        try:
            return await self._run_once(work)
        except _ROLLED_BACK:
            pass  # Rare, so only then pay for a retry context.
        with translated_failures():
            async for attempt in stamina.retry_context(
                on=_ROLLED_BACK, attempts=5, wait_initial=0.01
            ):
                with attempt:
                    return await self._run_once(work)
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def _run_once(self, work: Callable[[StatementConnection], Awaitable[T]]) -> T:
        """Call `work` with a connection and translate failures of the database.

        `getconn` and `putconn` suffice: the pool's `connection()` would also ask for a commit.
        """
        self._in_progress += 1
        try:
            connection = await self._connection()
            deadline = Deadline(connection, self._session.deadline_s)
            try:
                with deadline:
                    return await work(connection)
            except asyncio.CancelledError:
                # A cancellation while a pipeline reads an error leaves results unread, which the
                # next statement on this connection would receive. The pool replaces it.
                await connection.close()
                raise
            except BaseException as error:
                if deadline.passed:
                    await connection.close()
                if connection.closed:
                    await self._renew_connections(connection)
                if deadline.passed:
                    raise DatabaseUnavailable(f"no answer within {deadline.limit_s:g} s") from error
                raise
            finally:
                await self._pool.putconn(connection)
        except _ROLLED_BACK:
            raise
        except FAILURES as error:
            meaning = unavailable(error)
            if meaning is None:
                raise
            self.on_failure(meaning)
            raise meaning from error
        finally:
            self._in_progress -= 1

    async def _connection(self) -> StatementConnection:
        """Take a connection from the pool, or raise the reason why there is none."""
        try:
            return await self._pool.getconn()
        except psycopg_pool.PoolTimeout:
            # The pool does not report why it cannot connect.
            reason = await self._connection_problem()
            if reason is None:
                raise
            raise reason from None

    async def _connection_problem(self) -> DatabaseUnavailable | None:
        try:
            connection = await psycopg.AsyncConnection.connect(self.url, **SOCKET_OPTIONS)
        except psycopg.Error as error:
            return unavailable(error)
        await connection.close()
        return None

    async def _prepare(self, connection: StatementConnection) -> None:
        """Set up a new connection of the pool."""
        connection.generation = self._generation
        with Deadline(connection, CONNECT_TIMEOUT_S):
            await connection.prepare_session(self._session)

    async def _renew_connections(self, lost: StatementConnection) -> None:
        """Replace all connections that are as old as a lost one: they are probably lost too.

        A restarted server has ended all of them, and a firewall may have forgotten all of them.
        """
        if lost.generation == self._generation:
            self._generation += 1
            await self._pool.drain()


def _read_results(statements: Sequence[Statement[Any]], rows: Sequence[Rows]) -> None:
    for statement, returned in zip(statements, rows, strict=True):
        statement.read(returned)
