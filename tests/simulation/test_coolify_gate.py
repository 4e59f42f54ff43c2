"""One pull for N bots, on a whole Coolify: whoever leads, whatever becomes of it, whoever dies."""

import pytest

from botpool.domain.ids import PoolName
from tests.simulation.morning import QUARTER, QUARTER_LAG_S, QUARTER_POLICY, Morning, coolify_pool
from tests.simulation.verdict import assert_good
from tests.support.replicas import MEET, TEAMS

IMAGE = "acme/bot:1"
ZOOM = PoolName("zoom")


def quarter(url: str, *pools: object, **changes: object):  # type: ignore[no-untyped-def]
    wanted = {
        "nature": QUARTER,
        "policy": QUARTER_POLICY,
        "status_lag_s": QUARTER_LAG_S,
        "stay_s": 200,
        "replicas": 2,
    }
    return Morning.dawn(url, *pools, **(wanted | changes))  # type: ignore[arg-type]


def leader(morning: Morning) -> str | None:
    rows = morning.rows("SELECT slot_name FROM bot_pool_slots WHERE leads_image IS NOT NULL")
    return rows[0]["slot_name"] if rows else None


def pulls(morning: Morning) -> dict[str, int]:
    return dict(morning.world.deployments.pulls)


@pytest.mark.parametrize("bots", [3, 30])
async def test_bots_at_once_on_a_cold_server_pull_once(database_url: str, bots: int) -> None:
    async with quarter(database_url, coolify_pool(bots)) as morning:
        await morning.admit(bots)
        await morning.run_until(lambda: morning.now >= 50, within_s=60)
        assert len(morning.world.deployments.open) == 1
        started = morning.rows("SELECT slot_name FROM bot_pool_slots WHERE phase = 'starting'")
        assert [row["slot_name"] for row in started] == [leader(morning)]
        await morning.run_until(morning.all_ended, within_s=4000)
        assert pulls(morning) == {IMAGE: 1}
        let_go = morning.rows(
            "SELECT DISTINCT at FROM history WHERE reason = 'the image is present'"
        )
        assert len(let_go) == 1, "the others were let go together"
        assert set(morning.statuses().values()) == {"DONE"}
        assert_good(morning)


async def test_the_next_one_leads_when_the_pull_fails(database_url: str) -> None:
    async with quarter(database_url, coolify_pool(3)) as morning:
        morning.world.set_faults({"pullFails": 1})
        await morning.admit(3)
        await morning.run_until(morning.all_ended, within_s=4000)
        assert pulls(morning) == {IMAGE: 1}, "the first one never came to download"
        assert set(morning.statuses().values()) == {"DONE"}, "a failed deployment is tried again"
        led = morning.rows("SELECT slot_name FROM history WHERE (data ->> 'leads')::boolean")
        assert len({row["slot_name"] for row in led}) == 2
        assert_good(morning)


async def test_the_next_one_leads_when_the_leader_is_cancelled(database_url: str) -> None:
    async with quarter(database_url, coolify_pool(3)) as morning:
        await morning.admit(3)
        await morning.run_until(lambda: bool(morning.world.deployments.open), within_s=60)
        first = leader(morning)
        (bot,) = morning.rows(
            "SELECT assigned_bot_id AS id FROM bot_pool_slots WHERE leads_image IS NOT NULL"
        )
        await morning.replica.bot_stopper.stop(bot["id"])
        await morning.run_until(lambda: leader(morning) not in (None, first), within_s=120)
        await morning.run_until(morning.all_ended, within_s=4000)
        statuses = morning.statuses()
        assert statuses.pop(bot["id"]) == "CANCELLED"
        assert set(statuses.values()) == {"DONE"}
        assert_good(morning)


async def test_the_next_one_leads_when_the_leader_times_out(database_url: str) -> None:
    async with quarter(database_url, coolify_pool(3)) as morning:
        morning.world.set_faults({"hangInProgress": 1})
        await morning.admit(3)
        await morning.run_until(morning.all_ended, within_s=4000)
        assert set(morning.statuses().values()) == {"DONE"}
        assert_good(morning)


async def test_killed_in_the_middle_of_the_pull_the_same_leader_is_carried_on(
    database_url: str,
) -> None:
    async with quarter(database_url, coolify_pool(4)) as morning:
        await morning.admit(4)
        await morning.run_until(lambda: bool(morning.world.deployments.open), within_s=60)
        first = leader(morning)
        for living in list(morning.living):
            await morning.bury(living)
        await morning.tick(10)
        assert leader(morning) == first
        await morning.run_until(morning.all_ended, within_s=4000)
        assert pulls(morning) == {IMAGE: 1}
        assert set(morning.statuses().values()) == {"DONE"}
        assert_good(morning)


async def test_two_platforms_and_two_tags_pull_side_by_side(database_url: str) -> None:
    pools = (
        coolify_pool(2, MEET, "acme/meet:1"),
        coolify_pool(2, TEAMS, "acme/teams:1"),
        coolify_pool(2, ZOOM, "acme/teams:2"),
    )
    async with quarter(database_url, *pools) as morning:
        for pool_name in (MEET, TEAMS, ZOOM):
            await morning.admit(2, pool_name)
        await morning.run_until(lambda: len(morning.world.deployments.open) == 3, within_s=60)
        await morning.run_until(morning.all_ended, within_s=4000)
        assert pulls(morning) == {"acme/meet:1": 1, "acme/teams:1": 1, "acme/teams:2": 1}
        assert_good(morning)
