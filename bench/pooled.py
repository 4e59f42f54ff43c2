"""Our side: whole cycles through the engine, with every row, fence and constraint.

A cycle is admitted → ended → stop confirmed → idle, counted by the assignments that have ended. The
replica's own loops do the releasing, as in production.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg

from bench.null_backend import NullBackend
from botpool.domain.ids import Platform
from botpool.domain.policy import Policy
from botpool.domain.records import BotRequest, PoolSpec
from botpool.engine.replica import Identity, Replica
from botpool.store.database import Database

_POOL = Platform("google-meet")
_WISH = BotRequest(
    platform=_POOL,
    meeting_url="https://meet.google.com/abc-defg-hij",
    bot_display_name="Botpool",
    bot_data={},
    priority=100,
    queue_timeout_ms=600_000,
    correlation_id="bench",
)


@asynccontextmanager
async def running(url: str, *, slots: int) -> AsyncIterator[Replica]:
    database = Database(url)
    await database.open()
    identity = Identity(owner="bench", public_url="http://127.0.0.1", secret=b"bench")
    replica = Replica(database, {"null": NullBackend()}, Policy(), identity)
    spec = PoolSpec(platform=_POOL, backend="null", image="null", max_size=slots, heartbeats="none")
    await replica.pools.configure([spec])
    await replica.start()
    try:
        yield replica
    finally:
        await replica.stop()
        await database.close()


async def cycles_per_second(replica: Replica, *, callers: int, seconds: float) -> float:
    """Bots admitted and stopped by that many callers at once, for that long."""
    ends_at = time.monotonic() + seconds

    async def call() -> None:
        while time.monotonic() < ends_at:
            admitted = await replica.admission.admit(_WISH)
            await replica.stopping.stop(admitted.bot.id)

    before, began = await _ended(replica), time.monotonic()
    await asyncio.gather(*(call() for _ in range(callers)))
    return (await _ended(replica) - before) / (time.monotonic() - began)


async def _ended(replica: Replica) -> int:
    async with await psycopg.AsyncConnection.connect(replica.database.url) as connection:
        cursor = await connection.execute("SELECT count(*) FROM assignments WHERE ended_at < now()")
        row = await cursor.fetchone()
    assert row is not None
    return int(row[0])
