"""Statements by their names: prepared once, sent in one go, and whose failure is whose."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus

from botpool.store.named_connection import NamedConnection
from tests.support.planting import planted

_STATEMENTS = 9
_MEGABYTES = 4
"""More than the buffers of a socket hold."""


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[NamedConnection]:
    connection = await NamedConnection.connect(database_url, autocommit=True)
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
    with planted(**statements):
        async with connection:
            yield connection


async def test_rows_come_back_under_the_names_of_their_columns(connection: NamedConnection) -> None:
    assert await connection.run(("number", {"n": 2})) == [[{"n": 2, "rest": 2, "next": 3}]]
    assert await connection.run(("make", {})) == [[]]
    answers = await connection.run(("insert", {"n": 1}), ("length", {"text": None}))
    assert answers == [[], [{"length": None}]]


async def test_a_statement_is_prepared_once_whatever_it_carries(
    connection: NamedConnection,
) -> None:
    for n in (1, 40_000, None, 2):
        await connection.run(("number", {"n": n}), ("text", {"text": str(n)}))
    plans = await (await connection.execute("SELECT name FROM pg_prepared_statements")).fetchall()
    assert sorted(plan["name"] for plan in plans) == ["number_0", "text_1"]


async def test_many_take_no_turn_each(
    connection: NamedConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await connection.run(("number", {"n": 0}))
    loop = asyncio.get_running_loop()
    waits = 0
    add_reader = loop.add_reader

    def counted(*args: Any) -> None:
        nonlocal waits
        waits += 1
        add_reader(*args)

    monkeypatch.setattr(loop, "add_reader", counted)
    answers = await connection.run(*(("number", {"n": n}) for n in range(_STATEMENTS)))
    assert [row["n"] for (row,) in answers] == [*range(_STATEMENTS)]
    assert 0 < waits < _STATEMENTS


async def test_what_does_not_fit_goes_both_ways_all_the_same(connection: NamedConnection) -> None:
    texts = [str(n) * _MEGABYTES * 1024 * 1024 for n in range(5)]
    async with asyncio.timeout(60):
        answers = await connection.run(*(("text", {"text": text}) for text in texts))
    assert [row["text"] for (row,) in answers] == texts


async def test_a_failure_is_the_failing_statements(connection: NamedConnection) -> None:
    for calls in (
        [("number", {"n": 1}), ("divide", {"by": 0}), ("number", {"n": 2})],
        [("divide", {"by": 0})],
    ):
        with pytest.raises(psycopg.errors.DivisionByZero):
            await connection.run(*calls)
    with pytest.raises(psycopg.errors.UndefinedColumn):
        await connection.run(("number", {"n": 1}), ("wrong", {}))
    assert await connection.run(("divide", {"by": 1})) == [[{"quotient": 1}]]


async def test_many_are_one_transaction(connection: NamedConnection) -> None:
    await connection.run(("make", {}))
    with pytest.raises(psycopg.errors.DivisionByZero):
        await connection.run(("insert", {"n": 1}), ("divide", {"by": 0}), ("insert", {"n": 2}))
    assert connection.pgconn.transaction_status == TransactionStatus.IDLE
    assert await connection.run(("count", {})) == [[{"rows": 0}]]
    *_, counted = await connection.run(("insert", {"n": 1}), ("insert", {"n": 2}), ("count", {}))
    assert counted == [{"rows": 2}], "each sees what the former did"
    assert await connection.run(("count", {})) == [[{"rows": 2}]]


async def test_what_is_refused_at_the_commit_is_told(connection: NamedConnection) -> None:
    await connection.run(("make", {}))
    with pytest.raises(psycopg.errors.UniqueViolation):
        await connection.run(("insert", {"n": 1}), ("insert", {"n": 1}))
    assert connection.pgconn.transaction_status == TransactionStatus.IDLE
    assert await connection.run(("count", {})) == [[{"rows": 0}]]


async def test_what_is_part_of_a_transaction_is_not_committed(connection: NamedConnection) -> None:
    await connection.run(("make", {}))
    with pytest.raises(psycopg.errors.DivisionByZero):
        async with connection.transaction():
            await connection.run(("insert", {"n": 1}), ("insert", {"n": 2}))
            await connection.run(("divide", {"by": 0}))
    assert await connection.run(("count", {})) == [[{"rows": 0}]]


async def test_what_cannot_be_written_is_not_sent(connection: NamedConnection) -> None:
    with pytest.raises(psycopg.DataError, match="NUL"):
        await connection.run(("number", {"n": 1}), ("text", {"text": "\0"}))
    assert connection.pgconn.transaction_status == TransactionStatus.IDLE
    assert await connection.run(("text", {"text": "a"})) == [[{"text": "a"}]]


@pytest.mark.parametrize("calls", [1, 3])
async def test_one_that_is_given_up_is_ended_at_the_server(
    connection: NamedConnection, calls: int
) -> None:
    await connection.run(("number", {"n": 0}))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await connection.run(("sleep", {"seconds": 60}), *[("number", {"n": 1})] * (calls - 1))
    async with asyncio.timeout(30):
        assert await connection.run(("number", {"n": 3})) == [[{"n": 3, "rest": 2, "next": 4}]]


@pytest.mark.parametrize("calls", [1, 3])
async def test_one_whose_server_is_gone_says_so(
    connection: NamedConnection, database_url: str, calls: int
) -> None:
    await connection.run(("number", {"n": 0}))
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])
    with pytest.raises(psycopg.OperationalError):
        await connection.run(*[("number", {"n": 1})] * calls)
    assert connection.closed


async def test_one_whose_server_ends_it_in_the_middle_says_why(
    connection: NamedConnection, database_url: str
) -> None:
    await connection.run(("number", {"n": 0}))
    running = asyncio.create_task(
        connection.run(("number", {"n": 1}), ("sleep", {"seconds": 60}), ("number", {"n": 2}))
    )
    await asyncio.sleep(0.3)
    with psycopg.connect(database_url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [connection.info.backend_pid])
    with pytest.raises(psycopg.errors.AdminShutdown):
        await running
    assert connection.closed


@pytest.mark.parametrize("calls", [1, 3])
async def test_one_whose_answers_are_garbled_is_lost(database_url: str, calls: int) -> None:
    async with _garbling(database_url) as (url, garble):
        connection = await NamedConnection.connect(url, autocommit=True)
        async with connection:
            with planted(number="SELECT %(n)s::integer AS n"):
                await connection.run(*[("number", {"n": 1})] * 2)
                garble.set()
                with pytest.raises(psycopg.Error):
                    async with asyncio.timeout(30):
                        await connection.run(*[("number", {"n": 1})] * calls)
            assert connection.closed


@asynccontextmanager
async def _garbling(url: str) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """The server behind somebody who, once told to, passes its answers on as nonsense."""
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


async def test_others_go_on_while_the_server_takes_nothing(connection: NamedConnection) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    text = "-" * 8 * _MEGABYTES * 1024 * 1024
    await connection.run(("sleep", {"seconds": 2}), ("length", {"text": text}))
    ticking.cancel()
    assert ticks > 50, "the event loop was held until the socket took more"
