"""A pipeline is sent in one go, and one that the socket cannot take is waited for as before."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row

from botpool.store.eager_connection import EagerConnection

_STATEMENTS = 9
_MEGABYTES = 4
"""More than the buffers of a socket hold."""


@pytest.fixture
async def connection(database_url: str) -> AsyncIterator[EagerConnection]:
    connection = await EagerConnection.connect(
        database_url, autocommit=True, row_factory=dict_row, prepare_threshold=0
    )
    async with connection:
        yield connection


async def test_statements_of_a_pipeline_take_no_turn_each(
    connection: EagerConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    waits = 0
    add_reader = loop.add_reader

    def counted(*args: Any) -> None:
        nonlocal waits
        waits += 1
        add_reader(*args)

    monkeypatch.setattr(loop, "add_reader", counted)
    async with connection.pipeline():
        cursors = [
            await connection.execute("SELECT %s::integer AS n", [n]) for n in range(_STATEMENTS)
        ]
    assert [await cursor.fetchall() for cursor in cursors] == [
        [{"n": n}] for n in range(_STATEMENTS)
    ]
    assert 0 < waits < _STATEMENTS


async def test_what_does_not_fit_goes_both_ways_all_the_same(connection: EagerConnection) -> None:
    texts = [str(n) * _MEGABYTES * 1024 * 1024 for n in range(5)]
    async with asyncio.timeout(60), connection.pipeline():
        cursors = [await connection.execute("SELECT %s::text AS text", [text]) for text in texts]
    for cursor, text in zip(cursors, texts, strict=True):
        (row,) = await cursor.fetchall()
        assert row["text"] == text


async def test_a_failure_is_the_failing_statements(connection: EagerConnection) -> None:
    with pytest.raises(psycopg.errors.DivisionByZero):
        async with connection.pipeline():
            await connection.execute("SELECT 1")
            await connection.execute("SELECT 1 / 0")
            await connection.execute("SELECT 2")
    assert await (await connection.execute("SELECT 3 AS n")).fetchall() == [{"n": 3}]


async def test_others_go_on_while_the_server_takes_nothing(connection: EagerConnection) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    async with connection.pipeline():
        await connection.execute("SELECT pg_sleep(2)")
        await connection.execute("SELECT length(%s::text)", ["-" * 8 * _MEGABYTES * 1024 * 1024])
    ticking.cancel()
    assert ticks > 50, "the event loop was held until the socket took more"
