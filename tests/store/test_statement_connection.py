"""A connection that runs SQL files by name: prepared statements, pipelines and failures."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import dict_row

from botpool.store import statement_connection
from botpool.store.query import Statement
from botpool.store.sessions import SessionTimeouts
from botpool.store.statement_connection import StatementConnection
from tests.support.replaced_statements import replaced_statements

_STATEMENTS = 9
_MEGABYTES = 4
"""More than the buffers of a socket hold."""


def call(name: str, **parameters: object) -> Statement[list[dict[str, Any]]]:
    return Statement(name, parameters, list)


async def _connect(url: str) -> StatementConnection:
    connection = await StatementConnection.connect(url, autocommit=True, row_factory=dict_row)
    await connection.prepare_session(SessionTimeouts.of(30.0))
    return connection


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[StatementConnection]:
    connection = await _connect(database_url)
    statements = {
        "number": "SELECT %(n)s::integer AS n, 5 %% 3 AS rest, %(n)s::integer + 1 AS next",
        "text": "SELECT %(text)s::text AS text",
        "length": "SELECT length(%(text)s::text) AS length",
        "divide": "SELECT 1 / %(by)s::integer AS quotient",
        "sleep": "SELECT pg_sleep(%(seconds)s::float8)",
        "wrong": "SELECT nothing",
        "make": "CREATE TEMPORARY TABLE made (n integer UNIQUE DEFERRABLE INITIALLY DEFERRED)",
        "insert": "INSERT INTO made VALUES (%(n)s)",
        "count": "SELECT count(*) AS rows FROM made",
    }
    with replaced_statements(**statements):
        async with connection:
            yield connection


async def test_rows_are_dictionaries_by_column_name(connection: StatementConnection) -> None:
    assert await connection.run(call("number", n=2)) == [[{"n": 2, "rest": 2, "next": 3}]]
    assert await connection.run(call("make")) == [[]]
    answers = await connection.run(call("insert", n=1), call("length", text=None))
    assert answers == [[], [{"length": None}]]


async def test_statement_is_prepared_once_for_all_parameter_values(
    connection: StatementConnection,
) -> None:
    for n in (1, 40_000, None, 2):
        await connection.run(
            call("number", n=n),
            call("text", text=None if n == 2 else str(n)),
        )
    texts = "SELECT statement FROM pg_prepared_statements WHERE statement ~ 'AS (n|text)\\M'"
    prepared = await (await connection.execute(texts)).fetchall()
    assert len(prepared) == 2


async def test_transaction_is_one_round_trip(
    connection: StatementConnection, tmp_path: Path
) -> None:
    calls = [call("number", n=n) for n in range(_STATEMENTS)]
    await connection.run_in_transaction(*calls)
    with (tmp_path / "trace").open("w") as trace:
        connection.pgconn.trace(trace.fileno())
        answers = await connection.run_in_transaction(*calls)
        connection.pgconn.untrace()
    sent = (tmp_path / "trace").read_text()
    assert [row["n"] for (row,) in answers] == [*range(_STATEMENTS)]
    begin_and_commit = 2
    assert sent.count("\tExecute\t") == _STATEMENTS + begin_and_commit
    assert len(re.findall(r"\bSync\b", sent)) == 1


async def test_pipeline_carries_more_than_the_socket_buffers_hold(
    connection: StatementConnection,
) -> None:
    texts = [str(n) * _MEGABYTES * 1024 * 1024 for n in range(5)]
    async with asyncio.timeout(60):
        answers = await connection.run(*(call("text", text=text) for text in texts))
    assert [row["text"] for (row,) in answers] == texts


async def test_error_of_failing_statement_is_raised(connection: StatementConnection) -> None:
    for calls in (
        [
            call("number", n=1),
            call("divide", by=0),
            call("number", n=2),
        ],
        [call("divide", by=0)],
    ):
        with pytest.raises(psycopg.errors.DivisionByZero):
            await connection.run(*calls)
    with pytest.raises(psycopg.errors.UndefinedColumn):
        await connection.run(call("number", n=1), call("wrong"))
    assert await connection.run(call("divide", by=1)) == [[{"quotient": 1}]]


async def test_transaction_commits_all_calls_or_none(connection: StatementConnection) -> None:
    await connection.run(call("make"))
    with pytest.raises(psycopg.errors.DivisionByZero):
        await connection.run_in_transaction(
            call("insert", n=1),
            call("divide", by=0),
            call("insert", n=2),
        )
    assert connection.pgconn.transaction_status == TransactionStatus.IDLE
    assert await connection.run(call("count")) == [[{"rows": 0}]]
    *_, counted = await connection.run_in_transaction(
        call("insert", n=1),
        call("insert", n=2),
        call("count"),
    )
    assert counted == [{"rows": 2}], "each sees what the former did"
    assert await connection.run(call("count")) == [[{"rows": 2}]]


async def test_error_at_commit_is_raised(connection: StatementConnection) -> None:
    await connection.run(call("make"))
    with pytest.raises(psycopg.errors.UniqueViolation):
        await connection.run_in_transaction(call("insert", n=1), call("insert", n=1))
    assert connection.pgconn.transaction_status == TransactionStatus.IDLE
    assert await connection.run(call("count")) == [[{"rows": 0}]]


async def test_run_inside_a_transaction_does_not_commit(connection: StatementConnection) -> None:
    await connection.run(call("make"))
    with pytest.raises(psycopg.errors.DivisionByZero):
        async with connection.transaction():
            await connection.run(call("insert", n=1), call("insert", n=2))
            await connection.run(call("divide", by=0))
    assert await connection.run(call("count")) == [[{"rows": 0}]]


async def test_unsendable_parameter_rolls_the_pipeline_back(
    connection: StatementConnection, database_url: str
) -> None:
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute("CREATE TABLE made (n integer)")
        with pytest.raises(psycopg.DataError, match="NUL"):
            await connection.run_in_transaction(call("insert", n=1), call("text", text="\0"))
        assert other.execute("SELECT count(*) FROM made").fetchone() == (0,)
        other.execute("DROP TABLE made")


async def test_pipeline_cancelled_between_two_calls_rolls_back(
    connection: StatementConnection, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    execute = statement_connection._execute

    async def cancelled_at_second(cursor: Any, statement: Statement[Any]) -> None:
        if statement.name == "number":
            await asyncio.sleep(0.2)  # The first call has run at the server.
            raise asyncio.CancelledError
        await execute(cursor, statement)

    monkeypatch.setattr(statement_connection, "_execute", cancelled_at_second)
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute("CREATE TABLE made (n integer)")
        with pytest.raises(asyncio.CancelledError):
            await connection.run_in_transaction(call("insert", n=1), call("number", n=1))
        assert other.execute("SELECT count(*) FROM made").fetchone() == (0,)
        other.execute("DROP TABLE made")


@pytest.mark.parametrize("calls", [1, 3])
async def test_cancelled_statement_ends_at_the_server(
    connection: StatementConnection, calls: int
) -> None:
    await connection.run(call("number", n=0))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await connection.run(
                call("sleep", seconds=60),
                *[call("number", n=1)] * (calls - 1),
            )
    async with asyncio.timeout(30):
        assert await connection.run(call("number", n=3)) == [[{"n": 3, "rest": 2, "next": 4}]]


@pytest.mark.parametrize("calls", [1, 3])
async def test_terminated_connection_raises_operational_error(
    connection: StatementConnection, database_url: str, calls: int
) -> None:
    await connection.run(call("number", n=0))
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])
    with pytest.raises(psycopg.OperationalError):
        await connection.run(*[call("number", n=1)] * calls)
    assert connection.closed


async def test_connection_terminated_in_a_pipeline_raises_operational_error(
    connection: StatementConnection, database_url: str
) -> None:
    await connection.run(call("number", n=0))
    running = asyncio.create_task(
        connection.run(
            call("number", n=1),
            call("sleep", seconds=60),
            call("number", n=2),
        )
    )
    await asyncio.sleep(0.3)
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])
    with pytest.raises(psycopg.OperationalError):
        await running
    assert connection.closed


@pytest.mark.parametrize("calls", [1, 3])
async def test_garbled_answers_close_the_connection(database_url: str, calls: int) -> None:
    async with _garbling(database_url) as (url, garble):
        connection = await _connect(url)
        async with connection:
            with replaced_statements(number="SELECT %(n)s::integer AS n"):
                await connection.run(*[call("number", n=1)] * 2)
                garble.set()
                with pytest.raises(psycopg.Error):
                    async with asyncio.timeout(30):
                        await connection.run(*[call("number", n=1)] * calls)
            assert connection.closed


@asynccontextmanager
async def _garbling(url: str) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """A proxy to the server that garbles its answers after the event is set."""
    garble = asyncio.Event()
    parts = conninfo_to_dict(url)
    ends: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = str(parts["host"]), parts["port"]
        if host.startswith("/"):
            server = await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        else:
            server = await asyncio.open_connection(host, int(port))
        ends.extend((writer, server[1]))
        await asyncio.gather(pass_on(reader, server[1]), pass_on(server[0], writer, garble))

    async def pass_on(
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        garble: asyncio.Event | None = None,
    ) -> None:
        while data := await source.read(65_536):
            target.write(b"!" * len(data) if garble is not None and garble.is_set() else data)
            await target.drain()

    proxy = await asyncio.start_server(serve, "127.0.0.1", 0)
    address = {"host": "127.0.0.1", "port": proxy.sockets[0].getsockname()[1], "sslmode": "disable"}
    try:
        yield make_conninfo("", **{**parts, **address}), garble
    finally:
        for end in ends:
            end.close()
        proxy.close()


async def test_event_loop_runs_while_the_server_reads_nothing(
    connection: StatementConnection,
) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    text = "-" * 8 * _MEGABYTES * 1024 * 1024
    await connection.run(call("sleep", seconds=2), call("length", text=text))
    ticking.cancel()
    assert ticks > 50, "the event loop was held until the socket took more"
