"""A bot has ended: how long until the next one's start is issued, with real processes.

Against the seed's way, a queue that is looked at once a second, on the same server and in turns.
"""

import asyncio
import math
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import uvloop

from bench import poller
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

_ALARM = 0.2
"""The slowest of a few hand-overs took up to 0.13 of a poll's while others used the machine."""
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
    poller.prepare(url)
    with tempfile.TemporaryDirectory(prefix="botpool-bench-") as folder:
        return [uvloop.run(_measure(ground, url, Path(folder)))]


async def _measure(ground: Ground, url: str, folder: Path) -> Figure:
    bots, polled, rounds = (20, 30, 1) if ground.small else (100, 100, ground.rounds)
    ours, theirs = [], []
    async with _replica(url, folder) as replica:
        # One more than hand-overs: the last one's slot is not handed over.
        for _ in range(_WARM_UP + bots * rounds + 1):
            await replica.admission.admit(WISH)
        await _ends(replica, url, _WARM_UP)
        for _ in range(rounds):
            theirs.append(await poller.hand_overs(url, ends=polled, seconds=ground.seconds))
            ours.append(await _ends(replica, url, bots))
    all_ours = [time_s for times in ours for time_s in times]
    detail = {
        "p50_ms": round(statistics.median(all_ours) * 1000, 1),
        "p99_ms": round(_p99(all_ours) * 1000, 1),
        "hand_overs": len(all_ours),
        "poll_p99_ms": round(_p99([time_s for times in theirs for time_s in times]) * 1000),
    }
    return Figure(
        name="handover_p99_vs_poll",
        rounds=[_p99(own) / _p99(other) for own, other in zip(ours, theirs, strict=True)],
        goal=0.05,
        at_most=True,
        alarm=_ALARM,
        detail=detail,
    )


def _p99(times: Sequence[float]) -> float:
    return sorted(times)[math.ceil(len(times) * 0.99) - 1]


@asynccontextmanager
async def _replica(url: str, folder: Path) -> AsyncIterator[Replica]:
    """A replica at work with one slot for real processes."""
    database = Database(url)
    await database.open()
    backend = ProcessBackend(folder, "bench", _PROGRAM)
    await backend.open()
    identity = Identity(owner="bench", public_url="http://127.0.0.1", secret=b"bench")
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
    """The next bot whose start was issued, by the database's clock."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        cursor = await connection.execute(_STATE)
        for bot_id, assignment_id, status, issued_at in await cursor.fetchall():
            if bot_id != after and status != "releasing":
                return bot_id, AssignmentId(assignment_id), issued_at
        await asyncio.sleep(0.02)
    raise AssertionError("no bot was started within a minute")
