"""Thirty minutes of random faults at fifty bots a minute lose no bot."""

import random
from collections.abc import Iterator

import pytest

from botpool.store.migrator import migrate
from tests.chaos.long_chaos import BUSY, LAG_S, POLICY, Chaos
from tests.simulation.coolify_simulation import TICK_S, CoolifySimulation, coolify_pool
from tests.support.clock import Clock
from tests.support.postgres import TestPostgres

MINUTES = 30
BOTS_A_MINUTE = 50
SLOTS = 120


@pytest.fixture
def own_postgres() -> Iterator[TestPostgres]:
    with TestPostgres() as server:
        yield server


@pytest.mark.long
@pytest.mark.timeout(7200)
async def test_random_faults_for_thirty_minutes_lose_no_bot(
    own_postgres: TestPostgres, quiet_log: None
) -> None:
    url = own_postgres.create_database()
    migrate(url)
    Clock(url).install()
    rng = random.Random(MINUTES)
    async with CoolifySimulation.start(
        url,
        coolify_pool(SLOTS),
        seed=MINUTES,
        emulator_config=BUSY,
        replicas=3,
        call_s=40,
        policy=POLICY,
        concurrent_deployments=40,
        status_lag_s=LAG_S,
    ) as simulation:
        chaos = Chaos(simulation, own_postgres, rng)
        outages = {MINUTES * 60 * share for share in (0.25, 0.5, 0.8)}
        while simulation.now < MINUTES * 60:
            due = int(simulation.now * BOTS_A_MINUTE / 60)
            await chaos.post(max(0, due - len(chaos.accepted) - len(chaos.unconfirmed)))
            if rng.random() < TICK_S / 45:
                chaos.break_coolify()
            if rng.random() < TICK_S / 30:
                chaos.kill_replica()
            if rng.random() < TICK_S / 15:
                chaos.break_agent()
            if outages and min(outages) <= simulation.now:
                outages.remove(min(outages))
                await chaos.kill_postgres()
            await chaos.tick()
        await chaos.post(MINUTES * BOTS_A_MINUTE - len(chaos.accepted) - len(chaos.unconfirmed))
        await chaos.end()
        outcomes = chaos.check_all_bots()
        assert len(chaos.accepted) == MINUTES * BOTS_A_MINUTE
        assert chaos.counts["PostgreSQL killed"] == 3
        assert simulation.crashes > 0
        print(f"{len(chaos.accepted)} bots: {dict(outcomes)}; {dict(chaos.counts)}")  # noqa: T201
