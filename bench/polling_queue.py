"""A queue that is polled once a second, as in the seed, for comparison with a hand-over.

One statement starts a bot, and the queue stops no container and waits for none, so that only the
poll itself takes time.
"""

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg

from bench.postgres import execute

_POLL_S = 1.0
_TABLES = """
    CREATE TABLE polled_queue (id bigserial PRIMARY KEY);
    CREATE TABLE polled_slots (
        id integer PRIMARY KEY, bot_id bigint, ended_at timestamptz, started_at timestamptz);
    CREATE INDEX ON polled_slots (ended_at) WHERE bot_id IS NULL;
"""
_BUSY = """
    TRUNCATE polled_queue, polled_slots;
    INSERT INTO polled_queue SELECT FROM generate_series(1, {ends});
    INSERT INTO polled_slots (id, bot_id) SELECT n, -n FROM generate_series(1, {ends}) AS n;
"""
_END = "UPDATE polled_slots SET bot_id = NULL, ended_at = clock_timestamp() WHERE id = %s"
_START_NEXT = """
    WITH next AS (
        DELETE FROM polled_queue WHERE id = (
            SELECT id FROM polled_queue ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED)
        RETURNING id)
    UPDATE polled_slots SET bot_id = next.id, started_at = clock_timestamp()
    FROM next
    WHERE polled_slots.id = (
        SELECT id FROM polled_slots WHERE bot_id IS NULL ORDER BY ended_at LIMIT 1
        FOR UPDATE SKIP LOCKED)
    RETURNING extract(epoch FROM started_at - ended_at)::float8
"""
_IS_FREE = "SELECT 1 FROM polled_slots WHERE bot_id IS NULL LIMIT 1"


def prepare(url: str) -> None:
    execute(url, _TABLES)


async def hand_overs(url: str, *, ends: int, seconds: float) -> list[float]:
    """Return how long each slot waited for its next start; bots end at random moments."""
    execute(url, _BUSY.format(ends=ends))
    chance = random.Random(ends)
    moments = sorted(chance.uniform(0, seconds) for _ in range(ends))
    began = time.monotonic()
    async with (
        await psycopg.AsyncConnection.connect(url, autocommit=True) as connection,
        _polling(url) as times,
    ):
        for slot, moment in enumerate(moments, start=1):
            await asyncio.sleep(max(0.0, began + moment - time.monotonic()))
            await connection.execute(_END, [slot])
        return [await times.get() for _ in range(ends)]


@asynccontextmanager
async def _polling(url: str) -> AsyncIterator[asyncio.Queue[float]]:
    """Poll for the duration of the block; yields a queue of hand-over times."""
    times: asyncio.Queue[float] = asyncio.Queue()

    async def poll(connection: psycopg.AsyncConnection) -> None:
        while True:
            while await (await connection.execute(_IS_FREE)).fetchone():
                row = await (await connection.execute(_START_NEXT)).fetchone()
                assert row is not None
                times.put_nowait(row[0])
            await asyncio.sleep(_POLL_S)

    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        polling = asyncio.create_task(poll(connection))
        try:
            yield times
        finally:
            polling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await polling
