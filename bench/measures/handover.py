"""A bot has ended: how long until the next one's start is issued, with real processes.

Against the seed's way, a queue that is looked at once a second: its 99th percentile is 0.99 s.
"""

import asyncio
import tempfile
import time
from pathlib import Path

import psycopg
import uvloop

from bench.cycles import POOL, WISH
from bench.figures import Figure
from bench.ground import Ground
from botpool.backends.process import ProcessBackend
from botpool.domain.ids import AssignmentId, BotId
from botpool.domain.policy import Policy
from botpool.domain.records import PoolSpec
from botpool.domain.states import BotStatus
from botpool.engine.replica import Identity, Replica
from botpool.store.database import Database

_POLL_P99_S = 0.99
_PROGRAM = ("sleep", "600")
_WARM_UP = 4
"""Hand-overs in which a replica's connections plan each statement for the first and only time."""
_STATE = (
    "SELECT s.assigned_bot_id, s.assignment_id, s.status, s.start_issued_at "
    "FROM bot_pool_slots s WHERE s.start_issued_at IS NOT NULL"
)
_ENDED = "SELECT ended_at FROM bots WHERE id = %s"


def measure(ground: Ground) -> list[Figure]:
    url = ground.database("handover")
    with tempfile.TemporaryDirectory(prefix="botpool-bench-") as folder:
        times = uvloop.run(_hand_over(ground, url, Path(folder)))
    p99 = times[len(times) * 99 // 100]
    detail = {
        "p50_ms": round(times[len(times) // 2] * 1000, 1),
        "p99_ms": round(p99 * 1000, 1),
        "hand_overs": len(times),
    }
    ratio = p99 / _POLL_P99_S
    return [
        Figure(name="handover_p99_vs_poll", rounds=[ratio], goal=0.05, at_most=True, detail=detail)
    ]


async def _hand_over(ground: Ground, url: str, folder: Path) -> list[float]:
    database = Database(url)
    await database.open()
    backend = ProcessBackend(folder, "bench", _PROGRAM)
    await backend.open()
    identity = Identity(owner="bench", public_url="http://127.0.0.1", secret=b"bench")
    replica = Replica(database, {"process": backend}, Policy(), identity)
    await replica.pools.configure(
        [PoolSpec(platform=POOL, backend="process", image="demo", max_size=1, heartbeats="none")]
    )
    await replica.start()
    try:
        bots = _WARM_UP + (10 if ground.small else 60)
        for _ in range(bots):
            await replica.admission.admit(WISH)
        return await _ends(replica, url, bots - 1)
    finally:
        await replica.ending.end_all(reason="bench")
        await replica.stop()
        await backend.close()
        await database.close()


async def _ends(replica: Replica, url: str, hand_overs: int) -> list[float]:
    times = []
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        bot_id, assignment_id, _ = await _started(connection, after=None)
        for _ in range(hand_overs):
            assert await replica.agents.report(assignment_id, bot_id, BotStatus.DONE, None)
            cursor = await connection.execute(_ENDED, [bot_id])
            ((ended_at,),) = await cursor.fetchall()
            bot_id, assignment_id, issued_at = await _started(connection, after=bot_id)
            times.append((issued_at - ended_at).total_seconds())
    return sorted(times[_WARM_UP:])


async def _started(connection, *, after: BotId | None):  # type: ignore[no-untyped-def]
    """The next bot whose start was issued, by the database's clock."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        cursor = await connection.execute(_STATE)
        for bot_id, assignment_id, status, issued_at in await cursor.fetchall():
            if bot_id != after and status != "releasing":
                return bot_id, AssignmentId(assignment_id), issued_at
        await asyncio.sleep(0.02)
    raise AssertionError("no bot was started within a minute")
