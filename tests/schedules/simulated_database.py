"""The real database, which runs one transaction at a time in the order of the turn scheduler.

Every transaction waits for a turn before it runs and for another before its result arrives, so that
other transactions come between. Some transactions stay open before their commit while others run
into their locks; some fail before or after their commit. Only the waiting is simulated: statements,
pipelines and transactions are those of `botpool.store`.
"""

import asyncio
import select
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import psycopg
from psycopg import waiting
from psycopg.rows import dict_row

from botpool.domain.errors import DatabaseUnavailable
from botpool.store.database import Connection, Database, Transaction
from botpool.store.query import Statement
from botpool.store.sessions import SessionTimeouts
from botpool.store.statement_connection import StatementConnection
from tests.schedules.turn_scheduler import TurnScheduler
from tests.support.clock import Clock

T = TypeVar("T")
_PLANS = "-c plan_cache_mode=force_generic_plan -c jit=off"
"""The tables hold few rows, so planning would take longer than running a statement."""
_BLOCKED_AFTER_S = 0.003
_TABLES = """
SELECT string_agg('DELETE FROM ' || quote_ident(tablename), '; ') AS statements
FROM pg_tables
WHERE schemaname = 'public' AND tablename <> 'test_clock' AND tablename <> 'schema_migrations'
"""
_SEQUENCES = """
SELECT 'SELECT ' || string_agg('setval(' || quote_literal(sequencename) || ', 1, false)', ', ')
    AS statements
FROM pg_sequences
WHERE schemaname = 'public'
"""
_CLOCK = b"UPDATE test_clock SET moved_by = make_interval(secs => $1::float8)"
_VACUUM_AFTER = 50
_CONNECTIONS = 4
"""More than are in use at once: one runs, one is held open, one waits for its locks."""


_IGNORED_STATEMENTS = frozenset({"record_pool_sample", "prune_history", "prune_idempotency_keys"})
"""Statements for charts and retention, on which no schedule depends."""

_UNORDERED = frozenset(
    {"lease_slots", "list_observed_slots", "list_observed_standbys", "list_handovers"}
)
"""Statements that return slots in any order."""


class _BlockingConnection(StatementConnection):
    """A connection that blocks the event loop until the server responds."""

    server: "Server | None" = None

    async def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        if self.server is None or self.server.held is None:
            return waiting.wait(gen, self.pgconn.socket, interval)
        return await self._wait_with_locks(gen, self.server)

    async def close(self) -> None:
        """Stay open after a cancellation: a statement here always runs to its end."""

    async def _wait_with_locks(self, gen: Any, server: "Server") -> Any:
        """Wait for the server; commit the held transaction if it blocks this statement."""
        try:
            wanted = next(gen)
            while True:
                ready = _ready(self.pgconn.socket, wanted)
                if ready:
                    wanted = gen.send(ready)
                elif server.held is not None and server.is_blocked(self.info.backend_pid):
                    await server.commit_held()
        except StopIteration as end:
            return end.value


def _ready(descriptor: int, wanted: Any) -> Any:
    readers = [descriptor] if wanted & waiting.Wait.R else []
    writers = [descriptor] if wanted & waiting.Wait.W else []
    readable, writable, _ = select.select(readers, writers, [], _BLOCKED_AFTER_S)
    return (waiting.Ready.R if readable else 0) | (waiting.Ready.W if writable else 0)


@dataclass
class Held:
    """A transaction that has done its work and has not committed."""

    go_on: "asyncio.Future[None]"
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Server:
    """The connections and the clock of one worker, kept for all of its schedules."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.held: Held | None = None
        self.after_release: Callable[[], None] = lambda: None
        """Called when a slot was freed, to check that its container has stopped."""
        self.free: list[StatementConnection] = []
        self.connection = psycopg.connect(
            url, autocommit=True, row_factory=dict_row, prepare_threshold=0, options=_PLANS
        )
        self._clock_set_to = -1.0
        self.connection.pgconn.prepare(b"clock", _CLOCK)
        (tables,), (sequences,) = self.rows(_TABLES), self.rows(_SEQUENCES)
        # In this role PostgreSQL runs no triggers, so foreign keys do not slow the deletion.
        self._reset_statements = (
            "SET session_replication_role = replica; "
            f"{tables['statements']}; {sequences['statements']}; "
            "SET session_replication_role = origin"
        )
        self._resets = 0
        Clock(url).freeze()

    async def connect(self) -> None:
        for _ in range(_CONNECTIONS):
            connection = await _BlockingConnection.connect(
                self.url, autocommit=True, row_factory=dict_row, options=_PLANS
            )
            connection.server = self
            await connection.prepare_session(SessionTimeouts.of(30.0))
            self.free.append(connection)

    async def close(self) -> None:
        self.connection.close()
        for connection in self.free:
            await StatementConnection.close(connection)

    def reset(self) -> None:
        """Empty the database for the next schedule.

        DELETE keeps the files and the prepared plans, which TRUNCATE would discard.
        """
        self.held = None
        self.connection.execute(self._reset_statements, prepare=False)
        self._resets += 1
        if self._resets % _VACUUM_AFTER == 0:
            self.connection.execute("VACUUM")
        self.set_clock(0.0)

    def set_clock(self, now: float) -> None:
        """Set the database's clock."""
        if now != self._clock_set_to:
            self._clock_set_to = now
            # A prepared statement without a cursor: a schedule runs this hundreds of times.
            self.connection.pgconn.exec_prepared(b"clock", [str(now).encode()])

    def rows(self, query: str, *parameters: object) -> list[dict[str, Any]]:
        return self.connection.execute(query, parameters, prepare=True).fetchall()

    def is_blocked(self, backend_pid: int) -> bool:
        (row,) = self.rows("SELECT cardinality(pg_blocking_pids(%s)) > 0 AS blocked", backend_pid)
        return bool(row["blocked"])

    async def commit_held(self) -> None:
        """Let the held transaction commit, and wait for its commit."""
        held = self.held
        assert held is not None
        if not held.go_on.done():
            held.go_on.set_result(None)
        cancelled = False
        while not held.over.is_set():
            try:
                await held.over.wait()
            except asyncio.CancelledError:
                cancelled = True  # Raised below: a statement is in progress.
        if cancelled:
            raise asyncio.CancelledError


@dataclass
class DatabaseFaults:
    """The probabilities of faults in a transaction."""

    held_open: float = 0.0
    fails: float = 0.0
    response_lost: float = 0.0


class _Pool:
    """Replaces psycopg's connection pool."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def getconn(self) -> StatementConnection:
        return self._server.free.pop()

    async def putconn(self, connection: StatementConnection) -> None:
        self._server.free.append(connection)


class SimulatedDatabase(Database):
    """The database as one replica uses it. After `crash` no statement of the replica reaches it."""

    def __init__(
        self, server: Server, scheduler: TurnScheduler, faults: DatabaseFaults, name: str
    ) -> None:
        super().__init__(server.url)
        self._pool = cast("Any", _Pool(server))
        self._server = server
        self._scheduler = scheduler
        self._faults = faults
        self._name = name
        self._crashed = False
        self.notify: Callable[[], None] = lambda: None
        self.notify_owner: Callable[[str, str], None] = lambda channel, slots: None

    def crash(self) -> None:
        self._crashed = True

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def listener(self, channel: str | None = None) -> Connection:
        """Wait for ever: notifications of other replicas arrive through `notify`."""
        return await asyncio.get_running_loop().create_future()

    async def transact(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        return await self._run_in_turn("transaction", super().transact(work), work)

    async def commit(self, statements: Sequence[Statement[Any]]) -> None:
        names = [statement.name for statement in statements]
        if names == ["notify_replicas"]:
            self.notify()
            statements[0].read([])
            return
        if names == ["notify_owner"]:
            parameters = statements[0].parameters
            self.notify_owner(parameters["channel"], parameters["slots"])
            statements[0].read([])
            return
        if names[0] in _IGNORED_STATEMENTS:
            statements[0].read([])
            return
        await self._run_in_turn(
            "+".join(names),
            super().commit(statements),
            lambda transaction: transaction.run(statements),
        )
        if names[0] in _UNORDERED:
            # The order on disk differs between runs, so the seed decides the order.
            rows = statements[0].result
            rows.sort(key=lambda row: row.slot_id)
            self._scheduler.rng.shuffle(rows)

    async def _run_in_turn(
        self,
        what: str,
        plain: Awaitable[T],
        work: Callable[[Transaction], Awaitable[T]],
    ) -> T:
        rng, faults, label = self._scheduler.rng, self._faults, f"{self._name} {what}"
        try:
            await self._turn(label)
            self._fail(faults.fails)
            self._server.set_clock(self._scheduler.now)
            if self._server.held is None and rng.random() < faults.held_open:
                response = await self._run_held_open(label, work)
            else:
                response = await plain
        finally:
            cast("Any", plain).close()  # Not awaited after a fault.
        if "free_slot" in what:
            self._server.after_release()
        await self._turn(f"{label}: response")
        self._fail(faults.response_lost)
        return response

    async def _run_held_open(self, label: str, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Do the work and let other transactions run before its commit."""

        async def held_work(transaction: Transaction) -> T:
            response = await work(transaction)
            self._server.held = held = Held(go_on=asyncio.get_running_loop().create_future())
            turn = asyncio.ensure_future(self._turn(f"{label}: commit"))
            try:
                await asyncio.wait({turn, held.go_on}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                turn.cancel()
            return response

        try:
            return await super().transact(held_work)
        finally:
            if self._server.held is not None:
                self._server.held.over.set()
                self._server.held = None

    async def _turn(self, label: str) -> None:
        if not self._crashed:
            await self._scheduler.turn(label)
        if self._crashed:
            raise asyncio.CancelledError

    def _fail(self, probability: float) -> None:
        if self._scheduler.rng.random() < probability:
            raise DatabaseUnavailable("the connection was lost")
