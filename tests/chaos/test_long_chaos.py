"""Thirty minutes of chaos at fifty bots a minute: every bot is accounted for."""

import random
from collections.abc import Iterator

import pytest

from botpool.store.migrations import migrate
from tests.chaos.long_morning import BUSY, LAG_S, POLICY, Chaos
from tests.simulation.morning import TICK_S, Morning, coolify_pool
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
async def test_every_bot_is_accounted_for(own_postgres: TestPostgres, quiet_log: None) -> None:
    url = own_postgres.create_database()
    migrate(url)
    Clock(url).install()
    chance = random.Random(MINUTES)
    async with Morning.dawn(
        url,
        coolify_pool(SLOTS),
        seed=MINUTES,
        nature=BUSY,
        replicas=3,
        stay_s=40,
        policy=POLICY,
        concurrent_deployments=40,
        status_lag_s=LAG_S,
    ) as morning:
        chaos = Chaos(morning, own_postgres, chance)
        outages = {MINUTES * 60 * share for share in (0.25, 0.5, 0.8)}
        while morning.now < MINUTES * 60:
            due = int(morning.now * BOTS_A_MINUTE / 60)
            await chaos.post(max(0, due - len(chaos.accepted) - len(chaos.wanted)))
            if chance.random() < TICK_S / 45:
                chaos.break_the_platform()
            if chance.random() < TICK_S / 30:
                chaos.kill_a_replica()
            if chance.random() < TICK_S / 15:
                chaos.lose_an_agent()
            if outages and min(outages) <= morning.now:
                outages.remove(min(outages))
                await chaos.kill_postgres()
            await chaos.tick()
        await chaos.post(MINUTES * BOTS_A_MINUTE - len(chaos.accepted) - len(chaos.wanted))
        await chaos.end()
        ended = chaos.account()
        assert len(chaos.accepted) == MINUTES * BOTS_A_MINUTE
        assert chaos.done["PostgreSQL killed"] == 3
        assert morning.killed > 0
        print(f"{len(chaos.accepted)} bots: {dict(ended)}; {dict(chaos.done)}")  # noqa: T201
