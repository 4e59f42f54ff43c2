"""Which connection of several at rest is taken, and which is given up."""

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest

from botpool.store.warm_pool import WarmPool

_CONNECTIONS = 4


@pytest.fixture
async def pool(database_url: str) -> AsyncIterator[WarmPool[psycopg.AsyncConnection]]:
    async with WarmPool(
        database_url,
        connection_class=psycopg.AsyncConnection,
        min_size=1,
        max_size=_CONNECTIONS,
        max_idle=1,
        open=False,
    ) as pool:
        yield pool


async def test_the_last_to_come_back_is_taken_first(
    pool: WarmPool[psycopg.AsyncConnection],
) -> None:
    taken = [await pool.getconn() for _ in range(_CONNECTIONS)]
    for connection in taken:
        await pool.putconn(connection)
    for _ in range(_CONNECTIONS):
        connection = await pool.getconn()
        assert connection is taken[-1]
        await pool.putconn(connection)


async def test_those_that_rest_are_given_up(pool: WarmPool[psycopg.AsyncConnection]) -> None:
    taken = [await pool.getconn() for _ in range(_CONNECTIONS)]
    for connection in taken:
        await pool.putconn(connection)
    async with asyncio.timeout(30):
        while pool.get_stats()["pool_size"] > 1:
            await asyncio.sleep(0.05)
    assert [connection.closed for connection in taken] == [True] * (_CONNECTIONS - 1) + [False]
