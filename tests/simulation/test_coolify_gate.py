"""N bots pull an image once, also when the leader fails, is cancelled or its replica crashes."""

import pytest

from botpool.domain.ids import PoolName
from tests.simulation.coolify_simulation import (
    FAST_COOLIFY,
    FAST_POLICY,
    FAST_STATUS_LAG_S,
    CoolifySimulation,
    coolify_pool,
)
from tests.simulation.outcome_checks import assert_consistent_end
from tests.support.replicas import MEET, TEAMS

IMAGE = "acme/bot:1"
ZOOM = PoolName("zoom")


def fast_simulation(url: str, *pools: object, **changes: object):  # type: ignore[no-untyped-def]
    wanted = {
        "emulator_config": FAST_COOLIFY,
        "policy": FAST_POLICY,
        "status_lag_s": FAST_STATUS_LAG_S,
        "call_s": 200,
        "replicas": 2,
    }
    return CoolifySimulation.start(url, *pools, **(wanted | changes))  # type: ignore[arg-type]


def leader(simulation: CoolifySimulation) -> str | None:
    rows = simulation.rows("SELECT slot_name FROM bot_pool_slots WHERE leads_image IS NOT NULL")
    return rows[0]["slot_name"] if rows else None


def pulls(simulation: CoolifySimulation) -> dict[str, int]:
    return dict(simulation.coolify.deployments.pulls)


@pytest.mark.parametrize("bots", [3, 30])
async def test_simultaneous_bots_on_a_cold_server_pull_the_image_once(
    database_url: str, bots: int
) -> None:
    async with fast_simulation(database_url, coolify_pool(bots)) as simulation:
        await simulation.admit(bots)
        await simulation.run_until(lambda: simulation.now >= 50, within_s=60)
        assert len(simulation.coolify.deployments.open) == 1
        started = simulation.rows("SELECT slot_name FROM bot_pool_slots WHERE phase = 'starting'")
        assert [row["slot_name"] for row in started] == [leader(simulation)]
        await simulation.run_until(simulation.all_ended, within_s=4000)
        assert pulls(simulation) == {IMAGE: 1}
        passed = simulation.rows(
            "SELECT DISTINCT at FROM history WHERE reason = 'the image is present'"
        )
        assert len(passed) == 1, "the waiting slots passed the gate together"
        assert set(simulation.statuses().values()) == {"DONE"}
        assert_consistent_end(simulation)


async def test_next_slot_leads_when_the_pull_fails(database_url: str) -> None:
    async with fast_simulation(database_url, coolify_pool(3)) as simulation:
        simulation.coolify.set_faults({"pullFails": 1})
        await simulation.admit(3)
        await simulation.run_until(simulation.all_ended, within_s=4000)
        assert pulls(simulation) == {IMAGE: 1}, "the failed pull downloaded nothing"
        assert set(simulation.statuses().values()) == {"DONE"}, "a failed deployment is retried"
        led = simulation.rows("SELECT slot_name FROM history WHERE (data ->> 'leads')::boolean")
        assert len({row["slot_name"] for row in led}) == 2
        assert_consistent_end(simulation)


async def test_next_slot_leads_when_the_leader_is_cancelled(database_url: str) -> None:
    async with fast_simulation(database_url, coolify_pool(3)) as simulation:
        await simulation.admit(3)
        await simulation.run_until(lambda: bool(simulation.coolify.deployments.open), within_s=60)
        first = leader(simulation)
        (bot,) = simulation.rows(
            "SELECT assigned_bot_id AS id FROM bot_pool_slots WHERE leads_image IS NOT NULL"
        )
        await simulation.replica.bot_stopper.stop(bot["id"])
        await simulation.run_until(lambda: leader(simulation) not in (None, first), within_s=120)
        await simulation.run_until(simulation.all_ended, within_s=4000)
        statuses = simulation.statuses()
        assert statuses.pop(bot["id"]) == "CANCELLED"
        assert set(statuses.values()) == {"DONE"}
        assert_consistent_end(simulation)


async def test_next_slot_leads_when_the_leader_times_out(database_url: str) -> None:
    async with fast_simulation(database_url, coolify_pool(3)) as simulation:
        simulation.coolify.set_faults({"hangInProgress": 1})
        await simulation.admit(3)
        await simulation.run_until(simulation.all_ended, within_s=4000)
        assert set(simulation.statuses().values()) == {"DONE"}
        assert_consistent_end(simulation)


async def test_leader_stays_when_all_replicas_crash_during_the_pull(
    database_url: str,
) -> None:
    async with fast_simulation(database_url, coolify_pool(4)) as simulation:
        await simulation.admit(4)
        await simulation.run_until(lambda: bool(simulation.coolify.deployments.open), within_s=60)
        first = leader(simulation)
        for replica in list(simulation.replicas):
            await simulation.replace_crashed(replica)
        await simulation.tick(10)
        assert leader(simulation) == first
        await simulation.run_until(simulation.all_ended, within_s=4000)
        assert pulls(simulation) == {IMAGE: 1}
        assert set(simulation.statuses().values()) == {"DONE"}
        assert_consistent_end(simulation)


async def test_different_images_and_tags_pull_in_parallel(database_url: str) -> None:
    pools = (
        coolify_pool(2, MEET, "acme/meet:1"),
        coolify_pool(2, TEAMS, "acme/teams:1"),
        coolify_pool(2, ZOOM, "acme/teams:2"),
    )
    async with fast_simulation(database_url, *pools) as simulation:
        for pool_name in (MEET, TEAMS, ZOOM):
            await simulation.admit(2, pool_name)
        await simulation.run_until(
            lambda: len(simulation.coolify.deployments.open) == 3, within_s=60
        )
        await simulation.run_until(simulation.all_ended, within_s=4000)
        assert pulls(simulation) == {"acme/meet:1": 1, "acme/teams:1": 1, "acme/teams:2": 1}
        assert_consistent_end(simulation)
