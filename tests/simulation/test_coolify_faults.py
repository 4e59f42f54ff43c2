"""Each thing that goes wrong with a Coolify, alone: it costs time, sometimes a bot, never more."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from botpool.emulators.coolify import EmulatorConfig
from tests.simulation.morning import QUARTER, QUARTER_LAG_S, QUARTER_POLICY, Morning, coolify_pool
from tests.simulation.verdict import assert_good, put_in_others, snapshot

QUICK = EmulatorConfig(first_start_s=120.0)
FAULTY_S = 250.0
SOMETIMES = {"probability": 0.4}

FAULTS: Mapping[str, Mapping[str, Any]] = {
    "nobody listens": {"refuseConnection": {"seconds": 150}},
    "connections break": {"resetConnection": SOMETIMES},
    "connections break before anything is done": {
        "resetConnection": {"probability": 0.4, "worked": False}
    },
    "answers break off": {"halfAnswer": SOMETIMES},
    "answers come too late": {"slowAnswer": SOMETIMES},
    "a proxy in between says 502": {"badGateway": SOMETIMES},
    "502, though it worked": {"badGateway": {"probability": 0.4, "worked": True}},
    "Coolify says 500": {"serverError": SOMETIMES},
    "every list call fails": {"serverError": {"endpoint": "GET /applications"}},
    "429 now and then": {"rateLimited": {"probability": 0.1}},
    "failed calls are limited too": {"failedCallLimit": True, "serverError": SOMETIMES},
    "the API is switched off": {"apiDisabled": True},
    "our address is not allowed": {"addressNotAllowed": True},
    "the token expired": {"tokenExpired": True},
    "the token may not deploy": {"missingAbility": {"ability": "deploy"}},
    "the token may not write": {"missingAbility": {"ability": "write"}},
    "starts without uuid": {"startWithoutUuid": SOMETIMES},
    "phantom uuids": {"phantomUuid": SOMETIMES},
    "a deployment hangs in the queue": {"hangQueued": 1},
    "a deployment hangs": {"hangInProgress": 1},
    "a pull fails": {"pullFails": 2},
    "a pull takes for ever": {"pullSlow": {"seconds": 750, "times": 1}},
    "the registry is down": {"registryDown": True},
    "a crash loop": {"crashLoop": {"times": 1}},
    "a stop does nothing": {"stopDoesNothing": 3},
    "a stop lies": {"stopLies": SOMETIMES},
    "stops are slow": {"stopSlow": {"probability": 0.4, "seconds": 30}},
    "a cancel leaves the container running": {"cancelLeavesRunning": True, "hangInProgress": 1},
    "a cancel answers 500": {"cancelAnswers500": True, "hangQueued": 1},
    "a delete never finishes": {"deleteNeverFinishes": True, "stopDoesNothing": 10},
    "statuses are slow": {"statusLag": {"minSeconds": 11, "maxSeconds": 15}},
    "degraded": {"reportStatus": {"status": "degraded:unhealthy", "times": 3}},
    "an odd status": {"reportStatus": {"status": "paused:unknown", "probability": 0.3}},
    "the health check fails": {"healthCheckFails": True},
    "deployments as an object": {"deploymentsAsObject": True},
    "the server cannot be reached": {"serverUnreachable": True},
    "Coolify restarts": {"restartCoolify": True},
    "a Coolify before 4.2": {"versionBefore42": True},
}


@pytest.mark.parametrize("what", FAULTS)
async def test_a_fault_alone(database_url: str, what: str) -> None:
    async with Morning.dawn(
        database_url,
        coolify_pool(3),
        replicas=2,
        nature=QUARTER,
        policy=QUARTER_POLICY,
        status_lag_s=QUARTER_LAG_S,
        stay_s=30,
        seed=7,
    ) as morning:
        others = put_in_others(morning.world)
        before = snapshot(morning.world, others)
        await morning.admit(1)
        await morning.run_until(lambda: morning.now > 30, within_s=3600)
        morning.world.set_faults(FAULTS[what])
        await morning.admit(4)
        await morning.run_until(lambda: morning.now > FAULTY_S, within_s=3600, tick_s=5)
        morning.world.set_faults({"clear": True})
        await morning.run_until(morning.all_ended, within_s=4000, tick_s=10)
        # What released itself late is told to exit at its next beat.
        await morning.tick(15)
        await morning.run_until(morning.is_tidy, within_s=1000, tick_s=15)
        assert_good(morning, restarts="crashLoop" in FAULTS[what])
        assert snapshot(morning.world, others) == before


async def test_every_list_call_failing_for_an_hour_deletes_nothing(database_url: str) -> None:
    async with Morning.dawn(
        database_url, coolify_pool(4), nature=QUICK, stay_s=5 * 3600
    ) as morning:
        await morning.admit(3)
        await morning.run_until(
            lambda: set(morning.statuses().values()) == {"IN_CALL"}, within_s=3600
        )
        applications, agents = set(morning.world.applications), morning.bots.running
        morning.world.set_faults({"serverError": {"endpoint": "GET /applications"}})
        await morning.run_until(lambda: morning.now > 2 * 3600, within_s=9000, tick_s=30)
        assert set(morning.world.applications) == applications
        assert morning.bots.running == agents
        assert set(morning.statuses().values()) == {"IN_CALL"}
        assert len(morning.rows("SELECT id FROM bot_pool_slots WHERE status = 'busy'")) == 3


async def test_ten_minutes_without_a_platform_cost_nothing_but_time(database_url: str) -> None:
    async with Morning.dawn(database_url, coolify_pool(5), nature=QUICK, stay_s=900) as morning:
        await morning.admit(2)
        await morning.run_until(lambda: len(morning.bots.joined) == 2, within_s=1800)
        await morning.admit(3)
        await morning.tick()
        morning.world.set_faults({"refuseConnection": {"seconds": 600}})
        await morning.run_until(morning.all_ended, within_s=4 * 3600, tick_s=10)
        assert set(morning.statuses().values()) == {"DONE"}
        assert {row["attempts"] for row in morning.rows("SELECT attempts FROM bots")} == {1}
        assert_good(morning)


async def test_two_botpools_on_one_coolify_never_touch_each_other(
    database_url: str, second_database_url: str
) -> None:
    async with (
        Morning.dawn(database_url, coolify_pool(2), nature=QUICK) as one,
        Morning.dawn(second_database_url, coolify_pool(2), shares=one, installation="two") as two,
    ):
        await asyncio.gather(one.admit(2), two.admit(2))
        while not (one.all_ended() and two.all_ended()):
            assert one.now < 7200
            await one.tick()
            await two.work()
        assert len(one.owned()) == len(two.owned()) == 2
        assert not one.owned() & two.owned()
        assert set(one.statuses().values()) == set(two.statuses().values()) == {"DONE"}
