"""The real database, asked one transaction at a time, in the order that the conductor gives.

Every transaction takes a turn before it runs and one before its answer arrives, so that others
come between; some are held open before their commit, and meet those that run meanwhile at their
locks; some fail, before or after they were committed. Only the waiting is ours: statements,
pipelines and transactions are those of `botpool.store`.
"""

import asyncio
import select
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import psycopg
from psycopg import waiting
from psycopg.rows import dict_row

from botpool.domain.errors import DatabaseUnavailable
from botpool.store.database import Call, Connection, Database, Rows, Transaction
from botpool.store.statement_connection import StatementConnection
from tests.schedules.conductor import Conductor
from tests.support.clock import Clock

T = TypeVar("T")
_PLANS = "-c plan_cache_mode=force_generic_plan -c jit=off"
"""Tables of a few rows, empty before each schedule: planning would take longer than running."""
_LOOKS_BLOCKED_S = 0.003
_TABLES = """
SELECT string_agg('DELETE FROM ' || quote_ident(tablename), '; ') AS statements
FROM pg_tables
WHERE schemaname = 'public' AND tablename <> 'test_clock' AND tablename !~ 'yoyo'
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
"""More than can be in use at once: one that runs, one held open, one blocked by it."""


_OF_NO_ACCOUNT = frozenset({"record_pool_sample", "prune_history", "prune_idempotency_keys"})
"""Notes for charts, and what is forgotten after days: no schedule depends on them."""

_UNORDERED = frozenset({"lease_slots", "list_observed_slots"})
"""They give slots in any order."""


class _Blocking(StatementConnection):
    """A connection whose answers the whole loop waits for: nothing else happens meanwhile."""

    server: "Server | None" = None

    async def wait(self, gen: Any, interval: float = 0.1, timeout: float | None = None) -> Any:
        if self.server is None or self.server.held is None:
            return waiting.wait(gen, self.pgconn.socket, interval)
        return await self._wait_with_locks(gen, self.server)

    async def _wait_with_locks(self, gen: Any, server: "Server") -> Any:
        """As above, while somebody holds a transaction open: if it is in our way, it commits."""
        try:
            wanted = next(gen)
            while True:
                ready = _ready(self.pgconn.socket, wanted)
                if ready:
                    wanted = gen.send(ready)
                elif server.held is not None and server.is_blocked(self.info.backend_pid):
                    await server.let_commit()
        except StopIteration as end:
            return end.value


def _ready(descriptor: int, wanted: Any) -> Any:
    readers = [descriptor] if wanted & waiting.Wait.R else []
    writers = [descriptor] if wanted & waiting.Wait.W else []
    readable, writable, _ = select.select(readers, writers, [], _LOOKS_BLOCKED_S)
    return (waiting.Ready.R if readable else 0) | (waiting.Ready.W if writable else 0)


@dataclass
class Held:
    """A transaction that has done its work and not yet committed."""

    go_on: "asyncio.Future[None]"
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Server:
    """The connections of one worker, kept from schedule to schedule, and its clock."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.held: Held | None = None
        self.after_release: Callable[[], None] = lambda: None
        """Called when a slot was freed: nobody must run in it."""
        self.free: list[StatementConnection] = []
        self.eye = psycopg.connect(
            url, autocommit=True, row_factory=dict_row, prepare_threshold=0, options=_PLANS
        )
        self._shown_at = -1.0
        self.eye.pgconn.prepare(b"clock", _CLOCK)
        (tables,), (sequences,) = self.rows(_TABLES), self.rows(_SEQUENCES)
        # As a replica of itself, the server asks no trigger whether a row may go.
        self._emptying = (
            "SET session_replication_role = replica; "
            f"{tables['statements']}; {sequences['statements']}; "
            "SET session_replication_role = origin"
        )
        self._emptied = 0
        Clock(url).freeze()

    async def connect(self) -> None:
        for _ in range(_CONNECTIONS):
            connection = await _Blocking.connect(
                self.url, autocommit=True, row_factory=dict_row, options=_PLANS
            )
            connection.server = self
            await connection.prepare_session()
            self.free.append(connection)

    async def close(self) -> None:
        self.eye.close()
        for connection in self.free:
            await connection.close()

    def forget(self) -> None:
        """An empty database: the next schedule begins like any other.

        Not by TRUNCATE: it would make new files, and every statement would be planned anew.
        """
        self.held = None
        self.eye.execute(self._emptying, prepare=False)
        self._emptied += 1
        if self._emptied % _VACUUM_AFTER == 0:
            self.eye.execute("VACUUM")
        self.show(0.0)

    def show(self, now: float) -> None:
        """Set the database's clock."""
        if now != self._shown_at:
            self._shown_at = now
            # Not by a cursor: it is done hundreds of times in a schedule.
            self.eye.pgconn.exec_prepared(b"clock", [str(now).encode()])

    def rows(self, query: str, *parameters: object) -> list[dict[str, Any]]:
        return self.eye.execute(query, parameters, prepare=True).fetchall()

    def is_blocked(self, backend_pid: int) -> bool:
        (row,) = self.rows("SELECT cardinality(pg_blocking_pids(%s)) > 0 AS blocked", backend_pid)
        return bool(row["blocked"])

    async def let_commit(self) -> None:
        """Let the transaction that is held open commit, and wait until it has."""
        held = self.held
        assert held is not None
        if not held.go_on.done():
            held.go_on.set_result(None)
        cancelled = False
        while not held.over.is_set():
            try:
                await held.over.wait()
            except asyncio.CancelledError:
                cancelled = True  # Not now: our statement is under way.
        if cancelled:
            raise asyncio.CancelledError


@dataclass
class Trouble:
    """How likely it is that something goes wrong with a transaction."""

    held: float = 0.0
    fails: float = 0.0
    answer_lost: float = 0.0


class _Pool:
    """Stands for psycopg's pool of connections."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def getconn(self) -> StatementConnection:
        return self._server.free.pop()

    async def putconn(self, connection: StatementConnection) -> None:
        self._server.free.append(connection)


class SimulatedDatabase(Database):
    """What one replica has of it. After `die` nothing that the replica does reaches it."""

    def __init__(self, server: Server, conductor: Conductor, trouble: Trouble, name: str) -> None:
        super().__init__(server.url)
        self._pool = cast("Any", _Pool(server))
        self._server = server
        self._conductor = conductor
        self._trouble = trouble
        self._name = name
        self._dead = False
        self.notify: Callable[[], None] = lambda: None

    def die(self) -> None:
        self._dead = True

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def listener(self) -> Connection:
        """Nobody ever answers; what other replicas say comes by `notify`."""
        return await asyncio.get_running_loop().create_future()

    async def fetch(self, name: str, parameters: Mapping[str, Any]) -> Rows:
        if name == "notify_replicas":
            self.notify()
            return []
        if name in _OF_NO_ACCOUNT:
            return []

        async def work(transaction: Transaction) -> Rows:
            (rows,) = await transaction.send((name, parameters))
            return rows

        rows = await self._in_turn(name, super().fetch(name, parameters), work)
        if name in _UNORDERED:
            # Not in the order in which they lie on the disk: the seed decides that too.
            rows.sort(key=lambda row: row["slot_id"])
            self._conductor.chance.shuffle(rows)
        return rows

    async def transact(self, work: Callable[[Transaction], Awaitable[T]]) -> T:
        return await self._in_turn("transaction", super().transact(work), work)

    async def atomically(self, *calls: Call) -> list[Rows]:
        async def work(transaction: Transaction) -> list[Rows]:
            return await transaction.send(*calls)

        names = "+".join(name for name, _ in calls)
        return await self._in_turn(names, super().atomically(*calls), work)

    async def _in_turn(
        self,
        what: str,
        plain: Awaitable[T],
        work: Callable[[Transaction], Awaitable[T]],
    ) -> T:
        chance, trouble, label = self._conductor.chance, self._trouble, f"{self._name} {what}"
        try:
            await self._turn(label)
            self._fail(trouble.fails)
            self._server.show(self._conductor.now)
            if self._server.held is None and chance.random() < trouble.held:
                answer = await self._held_open(label, work)
            else:
                answer = await plain
        finally:
            cast("Any", plain).close()  # Not awaited, if something came between.
        if "free_slot" in what:
            self._server.after_release()
        await self._turn(f"{label}: answer")
        self._fail(trouble.answer_lost)
        return answer

    async def _held_open(self, label: str, work: Callable[[Transaction], Awaitable[T]]) -> T:
        """Do the work, and let others come before its commit."""

        async def held_work(transaction: Transaction) -> T:
            answer = await work(transaction)
            self._server.held = held = Held(go_on=asyncio.get_running_loop().create_future())
            turn = asyncio.ensure_future(self._turn(f"{label}: commit"))
            try:
                await asyncio.wait({turn, held.go_on}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                turn.cancel()
            return answer

        try:
            return await super().transact(held_work)
        finally:
            if self._server.held is not None:
                self._server.held.over.set()
                self._server.held = None

    async def _turn(self, label: str) -> None:
        if not self._dead:
            await self._conductor.turn(label)
        if self._dead:
            raise asyncio.CancelledError

    def _fail(self, probability: float) -> None:
        if self._conductor.chance.random() < probability:
            raise DatabaseUnavailable("the connection was lost")
