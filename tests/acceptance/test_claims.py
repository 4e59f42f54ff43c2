"""Claims and releases from eight processes: none given twice, none lost.

`make test` runs a thousand, `make test-long` ten thousand and `make soak` a hundred thousand; each
claim takes nine statements. Each process is a replica of the real engine with its own connections.
To keep the test short, the user stops each bot while it deploys, so the first step of its slot ends
it and no backend is called. The test covers admission, queue, hand-over and release.
"""

import asyncio
import logging
import multiprocessing
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing.synchronize import Barrier, Semaphore
from typing import Any

import psycopg
import pytest
import structlog
import uvloop

from botpool.domain.bot_ending import BotEnding
from botpool.domain.fenced_slots import LeasedSlot
from botpool.domain.policy import Policy
from botpool.domain.states import BotStatus
from botpool.engine.lifecycle.bot_endings import BotEndings
from botpool.engine.lifecycle.slot_steps import SlotSteps
from botpool.engine.replica import Identity, Replica
from botpool.engine.runtime.leases import Lease
from botpool.engine.runtime.loop import Loop
from botpool.store.bot_stops import list_live_bots
from botpool.store.database import Database
from botpool.store.migrator import migrate
from tests.support.invariants import assert_settled
from tests.support.postgres import TestPostgres
from tests.support.replicas import bot_request, pool
from tests.support.run_sizes import long_or_soak
from tests.support.scripted_backend import ScriptedBackend

pytestmark = pytest.mark.alone

PROCESSES = 8
CALLERS = 4
POOL = 40
IN_FLIGHT = 44
MANY_CLAIMS = long_or_soak(10_000, 100_000)
"""Slightly more than the slots: some bots get an idle slot, others wait for a release."""

STUCK_S = 300.0
"""Exceeded only if a bot was lost or another process has failed."""

# In the order of history, not of time: a claim's time may be before that of the release it follows.
OVERLAPPING_ASSIGNMENTS = """
    SELECT slot_name, assignment_id, then_id, then_state, at_last_id, at_last_state FROM (
        SELECT slot_name, assignment_id, to_state,
               lead(assignment_id) OVER changes AS then_id,
               lead(to_state) OVER changes AS then_state,
               lead(assignment_id, 2) OVER changes AS at_last_id,
               lead(to_state, 2) OVER changes AS at_last_state
        FROM history
        WHERE kind = 'slot.status'
        WINDOW changes AS (PARTITION BY slot_id ORDER BY id)) AS followed
    WHERE to_state = 'deploying'
      AND (then_id, then_state, at_last_id, at_last_state)
          IS DISTINCT FROM (assignment_id, 'releasing', assignment_id, 'idle')
"""

together: Barrier
in_flight: Semaphore


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "claims", [1_280, pytest.param(MANY_CLAIMS, marks=[pytest.mark.long, pytest.mark.soak])]
)
async def test_no_slot_is_given_twice_and_none_is_lost(postgres: TestPostgres, claims: int) -> None:
    url = postgres.create_database()
    migrate(url)
    await configure(url)
    outcomes = await from_eight_processes(url, claims)
    assert outcomes.total() == claims
    assert_settled(url)
    with psycopg.connect(url) as connection:
        ask = connection.execute
        bots = ask("SELECT status, count(*) FROM bots GROUP BY 1").fetchall()
        assert bots == [("CANCELLED", claims)]
        assigned = ask("SELECT count(*), count(DISTINCT bot_id), count(ended_at) FROM assignments")
        assert assigned.fetchone() == (claims, claims, claims)
        slots = ask("SELECT status, count(*) FROM bot_pool_slots GROUP BY 1").fetchall()
        assert slots == [("idle", POOL)]
        assert ask(OVERLAPPING_ASSIGNMENTS).fetchall() == []
    # The test covers both claims of idle slots and hand-overs.
    assert outcomes[BotStatus.DEPLOYING] and outcomes[BotStatus.QUEUED], outcomes
    postgres.drop_database(url)


async def configure(url: str) -> None:
    database = Database(url)
    await database.open()
    await new_replica(database, "setup").pools.configure([pool(POOL)])
    await database.close()


async def from_eight_processes(url: str, claims: int) -> Counter[str]:
    context = multiprocessing.get_context("spawn")
    shared = (context.Barrier(PROCESSES), context.Semaphore(IN_FLIGHT))
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(PROCESSES, context, initializer=enter, initargs=shared) as workers:
        outcomes = await asyncio.gather(
            *(
                loop.run_in_executor(workers, work, url, f"replica-{number}", claims // PROCESSES)
                for number in range(PROCESSES)
            )
        )
    return sum(outcomes, Counter[str]())


def enter(barrier: Barrier, semaphore: Semaphore) -> None:
    """Set up a worker process: the shared limits, and no log lines for transitions."""
    global together, in_flight
    together, in_flight = barrier, semaphore
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))


def work(url: str, owner: str, claims: int) -> Counter[str]:
    """Admit bots in a worker process, and take steps until all have ended."""
    return uvloop.run(claim_and_release(url, owner, claims))


async def claim_and_release(url: str, owner: str, claims: int) -> Counter[str]:
    database = Database(url)
    await database.open()
    replica = new_replica(database, owner)
    user: Any = StopsWhileDeploying(steps=replica.reconciler.steps, bot_endings=replica.bot_endings)
    reconciler = replace(replica.reconciler, deployer=user)
    poll_s = replica.policy.queue_poll_s
    steps = Loop("steps", reconciler.run_due_steps, interval_s=poll_s, wake=replica.wakeups.slots)
    together.wait(60)
    steps.start()
    outcomes = await asyncio.gather(
        *(admit(replica, claims // CALLERS + (n < claims % CALLERS)) for n in range(CALLERS))
    )
    async with asyncio.timeout(STUCK_S):
        while await live_bots(database):
            await asyncio.sleep(0.2)
    await steps.stop()
    await reconciler.return_leases(within_s=10)
    await database.close()
    return sum(outcomes, Counter[str]())


async def admit(replica: Replica, claims: int) -> Counter[str]:
    """Admit bots one after the other, while fewer than the limit are in flight."""
    outcomes = Counter[str]()
    for _ in range(claims):
        async with asyncio.timeout(STUCK_S):
            while not in_flight.acquire(block=False):
                await asyncio.sleep(0.005)
        admitted = await replica.admission.admit(bot_request())
        outcomes[admitted.bot.status] += 1
    return outcomes


async def live_bots(database: Database) -> bool:
    for queued in (True, False):
        if await list_live_bots(database, queued=queued):
            return True
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class StopsWhileDeploying:
    """Replaces the deployer: the user stops each bot before its first step."""

    steps: SlotSteps
    bot_endings: BotEndings

    async def step(self, slot: LeasedSlot, lease: Lease) -> None:
        assert slot.assignment_id is not None
        ending = BotEnding(status=BotStatus.CANCELLED, reason="stopped by its user")
        if await self.bot_endings.end(
            slot.assignment_id, ending, version=slot.version, holds_lease=True
        ):
            in_flight.release()
        else:
            await self.steps.abandon(slot, action="stop")


def new_replica(database: Database, owner: str) -> Replica:
    identity = Identity(owner=owner, public_url="http://127.0.0.1:1", agent_keys=(b"key",))
    return Replica(database, {"process": ScriptedBackend()}, Policy(), identity)
