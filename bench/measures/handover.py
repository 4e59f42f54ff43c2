"""The time from the end of a bot to the start of its successor, with real processes.

It is compared with a queue that is polled once a second, as in the seed.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import uvloop

from bench import polling_queue
from bench.cycles import BOT_REQUEST, POOL
from bench.figures import Figure, percentile
from bench.postgres import Bench
from botpool.backends.process import ProcessBackend
from botpool.domain.ids import AssignmentId, BotId
from botpool.domain.policy import Policy
from botpool.domain.pools import PoolSpec
from botpool.domain.states import BotStatus
from botpool.engine.replica import Identity, Replica
from botpool.store.database import Database

_TOLERANCE = 0.2
"""The slowest of a few hand-overs takes several times longer on a busy machine."""
_PROGRAM = ("sleep", "600")
_WARM_UP = 4
"""Hand-overs in which the connections prepare their statements."""
_STATE = (
    "SELECT s.assigned_bot_id, s.assignment_id, s.status, s.start_issued_at "
    "FROM bot_pool_slots s WHERE s.start_issued_at IS NOT NULL"
)
_ENDED = "SELECT ended_at FROM bots WHERE id = %s"


def measure(bench: Bench) -> list[Figure]:
    url = bench.database("handover")
    polling_queue.prepare(url)
    with tempfile.TemporaryDirectory(prefix="botpool-bench-") as folder:
        return [uvloop.run(_measure(bench, url, Path(folder)))]


async def _measure(bench: Bench, url: str, folder: Path) -> Figure:
    bots, polled, rounds = (20, 30, 1) if bench.small else (100, 100, bench.rounds)
    ours, theirs = [], []
    async with _replica(url, folder) as replica:
        # One bot more than hand-overs: the slot of the last bot is not handed over.
        for _ in range(_WARM_UP + bots * rounds + 1):
            await replica.admission.admit(BOT_REQUEST)
        await _ends(replica, url, _WARM_UP)
        for _ in range(rounds):
            theirs.append(await polling_queue.hand_overs(url, ends=polled, seconds=bench.seconds))
            ours.append(await _ends(replica, url, bots))
    all_ours = [time_s for times in ours for time_s in times]
    detail = {
        "p50_ms": round(statistics.median(all_ours) * 1000, 1),
        "p99_ms": round(percentile(all_ours, 99) * 1000, 1),
        "hand_overs": len(all_ours),
        "poll_p99_ms": round(
            percentile([time_s for times in theirs for time_s in times], 99) * 1000
        ),
    }
    return Figure(
        name="handover_p99_vs_poll",
        rounds=[
            percentile(own, 99) / percentile(other, 99)
            for own, other in zip(ours, theirs, strict=True)
        ],
        goal=0.05,
        at_most=True,
        tolerance=_TOLERANCE,
        detail=detail,
    )


@asynccontextmanager
async def _replica(url: str, folder: Path) -> AsyncIterator[Replica]:
    """Run a replica with one slot for real processes."""
    database = Database(url)
    await database.open()
    backend = ProcessBackend(folder, "bench", _PROGRAM)
    await backend.open()
    identity = Identity(owner="bench", public_url="http://127.0.0.1", agent_keys=(b"bench",))
    replica = Replica(database, {"process": backend}, Policy(), identity)
    await replica.pools.configure(
        [PoolSpec(pool_name=POOL, backend="process", image="demo", max_size=1, heartbeats="none")]
    )
    await replica.start()
    try:
        yield replica
    finally:
        await replica.shutdown.end_all(reason="bench")
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
    return times


async def _started(connection, *, after: BotId | None):  # type: ignore[no-untyped-def]
    """Wait for the next bot whose start was issued, by the clock of the database."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        cursor = await connection.execute(_STATE)
        for bot_id, assignment_id, status, issued_at in await cursor.fetchall():
            if bot_id != after and status != "releasing":
                return bot_id, AssignmentId(assignment_id), issued_at
        await asyncio.sleep(0.02)
    raise AssertionError("no bot was started within a minute")
