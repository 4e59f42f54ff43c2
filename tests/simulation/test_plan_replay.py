"""A replay of a recorded morning reproduces its waits."""

import pytest

from botpool.domain.plan.policies import Goal, floors_of
from botpool.domain.plan.replay import percentile, replay
from botpool.engine.plans import Plans
from tests.simulation.coolify_simulation import (
    FAST_COOLIFY,
    FAST_POLICY,
    FAST_STATUS_LAG_S,
    CoolifySimulation,
    coolify_pool,
)
from tests.support.replicas import MEET

ARRIVALS = {0: 3, 300: 5, 600: 9, 620: 4, 900: 2, 1200: 8, 1215: 3, 1800: 6}
"""When how many bots arrive, in seconds: more at once than the pool has slots."""


async def test_replay_of_a_recorded_morning_reproduces_its_waits(database_url: str) -> None:
    async with CoolifySimulation.start(
        database_url,
        coolify_pool(6),
        emulator_config=FAST_COOLIFY,
        policy=FAST_POLICY,
        status_lag_s=FAST_STATUS_LAG_S,
        call_s=150,
    ) as simulation:
        began = simulation.now
        for at_s, bots in ARRIVALS.items():
            await simulation.run_until(
                lambda due=at_s: simulation.now - began >= due, within_s=2_000
            )
            await simulation.admit(bots)
        await simulation.run_until(simulation.all_ended, within_s=4_000)
        plans = Plans(simulation.databases[0])
        record = await plans.record(MEET, replay_s=86_400)
        pool = await plans.pool(MEET)
        plan = await plans.plan(MEET, replay_s=86_400, goal=Goal(slo=0.9, within_s=60))

    assert len(record.bots) == sum(ARRIVALS.values())
    recorded = sorted(bot.wait_s for bot in record.bots if bot.wait_s is not None)
    floors = floors_of(pool.warm, record)
    replayed = replay(record, pool, floors, within_s=60).waits_s
    assert len(replayed) == len(recorded)
    assert max(recorded) > 150, "some bots had to wait for a release"
    for share in (0.5, 0.75, 0.9, 0.95, 0.99):
        expected = percentile(recorded, share)
        assert percentile(replayed, share) == pytest.approx(expected, rel=0.05), share
    assert sum(replayed) == pytest.approx(sum(recorded), rel=0.05)
    recorded_row, configured = plan.results[:2]
    assert (recorded_row.name, configured.name) == ("recorded", "as configured")
    assert configured.on_time_share == pytest.approx(recorded_row.on_time_share, abs=0.05)
