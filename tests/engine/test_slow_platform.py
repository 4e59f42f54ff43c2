"""A backend whose status lags: what is believed, when a stop is confirmed, what is budgeted."""

from dataclasses import replace

import pytest

from botpool.domain.errors import (
    BackendRefused,
    BackendUnavailable,
)
from botpool.domain.observation import ContainerState, DeploymentState
from botpool.domain.policy import Policy
from tests.engine.lagging import container, deployed, observed_running
from tests.support.replicas import Stage, pool, wish


@pytest.fixture(autouse=True)
def coolify_like(stage: Stage) -> None:
    stage.backend.has_deployments = True
    stage.backend.status_lag_s = 60.0


async def test_a_first_deployment_that_shows_exited_all_the_time_is_no_failure(
    stage: Stage,
) -> None:
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    for _ in range(28):
        stage.clock.move(15)
        await replica.observer.observe("process")
        assert stage.statuses(bot) == ["DEPLOYING"]
    await observed_running(stage, replica)
    assert stage.statuses(bot) == ["JOINING_CALL"]


async def test_the_grace_begins_with_the_end_of_the_deployment(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    await deployed(stage, replica)
    stage.clock.move(600)
    stage.backend.finish(container(stage))
    await replica.observer.observe("process")
    stage.clock.move(179)
    await replica.observer.observe("process")
    assert stage.slots()[0]["status"] == "deploying"
    stage.clock.move(2)
    await replica.observer.observe("process")
    assert stage.slots()[0]["status"] == "releasing"
    assert stage.backend.made("deployment") == ["d1"], "asked for once it was not under way"


@pytest.mark.parametrize("end", [DeploymentState.FAILED, DeploymentState.CANCELLED])
async def test_a_deployment_that_broke_off_fails_at_once(
    stage: Stage, end: DeploymentState
) -> None:
    replica = await stage.replica(pool(1))
    await deployed(stage, replica)
    stage.backend.finish(container(stage), end)
    await replica.observer.observe("process")
    assert stage.slots()[0]["status"] == "releasing"


async def test_an_agents_early_call_is_not_undone_by_a_late_status(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    stage.backend.finish(container(stage))
    await replica.agents.heartbeat(stage.slots()[0]["assignment_id"], bot)
    for _ in range(5):
        await replica.observer.observe("process")
        stage.clock.move(11)
    assert stage.statuses(bot) == ["JOINING_CALL"]


async def test_a_live_agent_is_believed_against_the_status(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    await observed_running(stage, replica)
    stage.clock.move(300)
    await replica.agents.heartbeat(stage.slots()[0]["assignment_id"], bot)
    stage.backend.show(container(stage), ContainerState.EXITED)
    await replica.observer.observe("process")
    assert stage.statuses(bot) == ["JOINING_CALL"]
    stage.clock.move(31)
    await replica.observer.observe("process")
    assert stage.bot(bot)["failure_code"] == "container_exited"


async def test_an_outage_of_an_hour_costs_nothing_but_time(stage: Stage) -> None:
    replica = await stage.replica(pool(2))
    runs = await deployed(stage, replica)
    await observed_running(stage, replica)
    waits = await deployed(stage, replica)
    down = BackendUnavailable("502 Bad Gateway")
    for call in ("look", "start", "ensure", "stop", "deployment"):
        stage.backend.fail(call, *[down] * 500)
    for _ in range(60):
        stage.clock.move(20)
        await stage.step(replica)
        await replica.observer.observe("process")
    assert stage.statuses(runs, waits) == ["JOINING_CALL", "DEPLOYING"]
    assert len(stage.slots()) == 2
    assert stage.backend.made("delete") == []


async def test_a_container_deleted_behind_our_back_is_made_again_under_the_same_slot(
    stage: Stage,
) -> None:
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    await observed_running(stage, replica)
    await stage.end(replica, bot)
    await stage.settle(replica)
    old = container(stage)
    stage.backend.lose(old)
    stage.backend.has_deployments = False
    bot = await deployed(stage, replica)
    new = container(stage)
    assert new != old
    assert stage.bot(bot)["container_id"] == new
    (made,) = stage.rows(
        "SELECT data FROM history WHERE reason = 'the container was gone and was created again'"
    )
    assert made["data"] == {"containerId": new, "formerContainerId": old, "attempt": 1}


async def test_slots_of_a_former_backend_are_taken_down(stage: Stage) -> None:
    stage.backend.has_deployments = False
    stage.backend.status_lag_s = 0
    replica = await stage.replica(pool(2), policy=Policy())
    bot = (await stage.run_bot(replica)).bot
    await stage.end(replica, bot.id)
    await stage.settle(replica)
    stage.rows("UPDATE bot_pool_slots SET backend = 'process', version = version + 1")
    stage.rows("UPDATE pools SET backend = 'coolify'")
    await replica.matcher.match_pool(stage.slots()[0]["pool_name"])
    await stage.settle(replica)
    assert stage.slots() == []
    assert stage.backend.containers == {}


async def test_changed_limits_are_taken_by_the_next_deployment(stage: Stage) -> None:
    stage.backend.has_deployments = False
    stage.backend.status_lag_s = 0
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot
    await stage.end(replica, bot.id)
    await stage.settle(replica)
    await replica.pools.configure([replace(pool(1), cpus=2.5, memory_mb=4096)])
    for _ in range(2):
        bot = (await stage.run_bot(replica)).bot
        await stage.end(replica, bot.id)
        await stage.settle(replica)
    assert len(stage.backend.made("ensure")) == 2, "made once, and changed once"
    assert stage.slots()[0]["limits"] == "2.5/4096"


async def test_a_wrong_setting_deletes_no_container(stage: Stage) -> None:
    stage.backend.has_deployments = False
    stage.backend.status_lag_s = 0
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.state_after_start = ContainerState.ERROR
    await replica.admission.admit(wish())
    while await stage.step(replica):
        pass
    refused = BackendRefused("backends.coolify.token", "expired")
    stage.backend.fail("ensure", *[refused] * 9)
    for _ in range(9):
        await replica.observer.observe("process")
        await stage.step(replica)
        stage.clock.move(61)
    assert stage.slots()[0]["status"] == "error"
    assert stage.backend.made("delete") == []


async def test_a_replica_without_the_backend_opens_no_gate(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    assert await replica.image_gate.open("coolify") == {}
