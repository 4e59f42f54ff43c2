"""Single Coolify faults delay bots or fail them, but lose none and leave nothing behind."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from botpool.emulators.coolify import EmulatorConfig
from tests.simulation.coolify_simulation import (
    FAST_COOLIFY,
    FAST_POLICY,
    FAST_STATUS_LAG_S,
    CoolifySimulation,
    coolify_pool,
)
from tests.simulation.outcome_checks import (
    add_foreign_applications,
    assert_consistent_end,
    snapshot,
)

QUICK = EmulatorConfig(first_start_s=120.0)
FAULTS_UNTIL_S = 250.0
SOMETIMES = {"probability": 0.4}

FAULTS: Mapping[str, Mapping[str, Any]] = {
    "connections are refused": {"refuseConnection": {"seconds": 150}},
    "connections break": {"resetConnection": SOMETIMES},
    "connections break before anything is done": {
        "resetConnection": {"probability": 0.4, "worked": False}
    },
    "responses are truncated": {"halfAnswer": SOMETIMES},
    "responses time out": {"slowAnswer": SOMETIMES},
    "a proxy returns 502": {"badGateway": SOMETIMES},
    "a proxy returns 502 after success": {"badGateway": {"probability": 0.4, "worked": True}},
    "Coolify returns 500": {"serverError": SOMETIMES},
    "every list call fails": {"serverError": {"endpoint": "GET /applications"}},
    "some calls return 429": {"rateLimited": {"probability": 0.1}},
    "failed calls count towards the rate limit": {
        "failedCallLimit": True,
        "serverError": SOMETIMES,
    },
    "the API is switched off": {"apiDisabled": True},
    "our address is not allowed": {"addressNotAllowed": True},
    "the token expired": {"tokenExpired": True},
    "the token may not deploy": {"missingAbility": {"ability": "deploy"}},
    "the token may not write": {"missingAbility": {"ability": "write"}},
    "start responses lack the deployment uuid": {"startWithoutUuid": SOMETIMES},
    "start responses name unknown deployments": {"phantomUuid": SOMETIMES},
    "a deployment hangs in the queue": {"hangQueued": 1},
    "a deployment hangs": {"hangInProgress": 1},
    "a pull fails": {"pullFails": 2},
    "a pull exceeds its timeout": {"pullSlow": {"seconds": 750, "times": 1}},
    "the registry is down": {"registryDown": True},
    "a crash loop": {"crashLoop": {"times": 1}},
    "a stop does nothing": {"stopDoesNothing": 3},
    "the status shows exited after a failed stop": {"stopLies": SOMETIMES},
    "stops are slow": {"stopSlow": {"probability": 0.4, "seconds": 30}},
    "a cancel leaves the container running": {"cancelLeavesRunning": True, "hangInProgress": 1},
    "a cancel returns 500": {"cancelAnswers500": True, "hangQueued": 1},
    "a delete never finishes": {"deleteNeverFinishes": True, "stopDoesNothing": 10},
    "statuses lag behind": {"statusLag": {"minSeconds": 11, "maxSeconds": 15}},
    "a status is degraded": {"reportStatus": {"status": "degraded:unhealthy", "times": 3}},
    "a status is unknown": {"reportStatus": {"status": "paused:unknown", "probability": 0.3}},
    "the health check fails": {"healthCheckFails": True},
    "deployments are listed as an object": {"deploymentsAsObject": True},
    "the server cannot be reached": {"serverUnreachable": True},
    "Coolify restarts": {"restartCoolify": True},
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_single_fault_loses_no_bot_and_leaves_nothing_behind(
    database_url: str, fault: str
) -> None:
    async with CoolifySimulation.start(
        database_url,
        coolify_pool(3),
        replicas=2,
        emulator_config=FAST_COOLIFY,
        policy=FAST_POLICY,
        status_lag_s=FAST_STATUS_LAG_S,
        call_s=30,
        seed=7,
    ) as simulation:
        foreign = add_foreign_applications(simulation.coolify)
        before = snapshot(simulation.coolify, foreign)
        await simulation.admit(1)
        await simulation.run_until(lambda: simulation.now > 30, within_s=3600)
        simulation.coolify.set_faults(FAULTS[fault])
        await simulation.admit(4)
        await simulation.run_until(lambda: simulation.now > FAULTS_UNTIL_S, within_s=3600, tick_s=5)
        simulation.coolify.set_faults({"clear": True})
        await simulation.run_until(simulation.all_ended, within_s=4000, tick_s=10)
        # Recovery stops a container that a stop did not reach.
        await simulation.run_until(lambda: not simulation.bots.running, within_s=1000, tick_s=15)
        await simulation.run_until(simulation.all_ended, within_s=1000, tick_s=15)
        await simulation.run_until(simulation.has_no_leftovers, within_s=1000, tick_s=15)
        assert_consistent_end(simulation, restarts="crashLoop" in FAULTS[fault])
        assert snapshot(simulation.coolify, foreign) == before


async def test_crashed_bot_fails_at_its_restart_and_never_rejoins(database_url: str) -> None:
    """Coolify restarts the container of a crashed bot with the same environment."""
    async with CoolifySimulation.start(
        database_url, coolify_pool(3), emulator_config=QUICK, call_s=900
    ) as simulation:
        bots = await simulation.admit(3)
        await simulation.run_until(
            lambda: set(simulation.statuses().values()) == {"IN_CALL"}, within_s=3600
        )
        crashed = [agent for agent in simulation.bots.running if agent.bot_id in bots[:2]]
        for agent in crashed:
            agent.crashes = True
        for _ in range(6):
            await simulation.tick()
        failed = simulation.rows("SELECT id, failure_code FROM bots WHERE status = 'FAILED'")
        assert {bot["id"]: bot["failure_code"] for bot in failed} == dict.fromkeys(
            bots[:2], "container_exited"
        )
        await simulation.run_until(simulation.all_ended, within_s=3600)
        assert simulation.statuses()[bots[2]] == "DONE"
        assert_consistent_end(simulation, restarts=True)


async def test_failing_list_calls_for_an_hour_delete_nothing(database_url: str) -> None:
    async with CoolifySimulation.start(
        database_url, coolify_pool(4), emulator_config=QUICK, call_s=5 * 3600
    ) as simulation:
        await simulation.admit(3)
        await simulation.run_until(
            lambda: set(simulation.statuses().values()) == {"IN_CALL"}, within_s=3600
        )
        applications, agents = set(simulation.coolify.applications), simulation.bots.running
        simulation.coolify.set_faults({"serverError": {"endpoint": "GET /applications"}})
        await simulation.run_until(lambda: simulation.now > 2 * 3600, within_s=9000, tick_s=30)
        assert set(simulation.coolify.applications) == applications
        assert simulation.bots.running == agents
        assert set(simulation.statuses().values()) == {"IN_CALL"}
        assert len(simulation.rows("SELECT id FROM bot_pool_slots WHERE status = 'busy'")) == 3


async def test_outage_of_ten_minutes_only_delays_bots(database_url: str) -> None:
    async with CoolifySimulation.start(
        database_url, coolify_pool(5), emulator_config=QUICK, call_s=900
    ) as simulation:
        await simulation.admit(2)
        await simulation.run_until(lambda: len(simulation.bots.joined) == 2, within_s=1800)
        await simulation.admit(3)
        await simulation.tick()
        simulation.coolify.set_faults({"refuseConnection": {"seconds": 600}})
        await simulation.run_until(simulation.all_ended, within_s=4 * 3600, tick_s=10)
        assert set(simulation.statuses().values()) == {"DONE"}
        assert {row["attempts"] for row in simulation.rows("SELECT attempts FROM bots")} == {1}
        assert_consistent_end(simulation)


async def test_two_installations_on_one_coolify_never_touch_each_other(
    database_url: str, second_database_url: str
) -> None:
    async with (
        CoolifySimulation.start(database_url, coolify_pool(2), emulator_config=QUICK) as one,
        CoolifySimulation.start(
            second_database_url, coolify_pool(2), shares=one, installation="two"
        ) as two,
    ):
        await asyncio.gather(one.admit(2), two.admit(2))
        while not (one.all_ended() and two.all_ended()):
            assert one.now < 7200
            await one.tick()
            await two.work()
        assert len(one.owned()) == len(two.owned()) == 2
        assert not one.owned() & two.owned()
        assert set(one.statuses().values()) == set(two.statuses().values()) == {"DONE"}
