"""Deployments on a backend whose status lags."""

from dataclasses import replace

import pytest

from botpool.domain.errors import (
    BackendRefused,
    BackendUnavailable,
)
from botpool.domain.observation import ContainerState, DeploymentState
from botpool.domain.policy import Policy
from tests.engine.lagging_backend import container, deployed, observed_running
from tests.support.replicas import Stage, bot_request, pool


@pytest.fixture(autouse=True)
def coolify_like(stage: Stage) -> None:
    stage.backend.has_deployments = True
    stage.backend.status_lag_s = 60.0


async def test_exited_during_a_deployment_does_not_fail_it(
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


async def test_grace_starts_at_the_end_of_the_deployment(stage: Stage) -> None:
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
    deployment = f"d{stage.slots()[0]['assignment_id']}"
    assert stage.backend.calls_of("deployment") == [deployment], (
        "queried once, when it was no longer listed"
    )


@pytest.mark.parametrize("end", [DeploymentState.FAILED, DeploymentState.CANCELLED])
async def test_failed_backend_deployment_fails_at_once(stage: Stage, end: DeploymentState) -> None:
    replica = await stage.replica(pool(1))
    await deployed(stage, replica)
    stage.backend.finish(container(stage), end)
    await replica.observer.observe("process")
    assert stage.slots()[0]["status"] == "releasing"


async def test_lagging_status_does_not_undo_an_agent_call(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    stage.backend.finish(container(stage))
    await replica.agents.heartbeat(stage.slots()[0]["assignment_id"], bot)
    for _ in range(5):
        await replica.observer.observe("process")
        stage.clock.move(11)
    assert stage.statuses(bot) == ["JOINING_CALL"]


async def test_heartbeats_outweigh_an_exited_status(stage: Stage) -> None:
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


async def test_hour_of_backend_outage_only_delays_deployments(stage: Stage) -> None:
    replica = await stage.replica(pool(2))
    runs = await deployed(stage, replica)
    await observed_running(stage, replica)
    waits = await deployed(stage, replica)
    down = BackendUnavailable("502 Bad Gateway")
    for call in ("observe", "start", "ensure", "stop", "deployment"):
        stage.backend.fail(call, *[down] * 500)
    for _ in range(60):
        stage.clock.move(20)
        await stage.step(replica)
        await replica.observer.observe("process")
    assert stage.statuses(runs, waits) == ["JOINING_CALL", "DEPLOYING"]
    assert len(stage.slots()) == 2
    assert stage.backend.calls_of("delete") == []


async def test_deleted_container_is_created_again_for_its_slot(
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
    (recreated,) = stage.rows(
        "SELECT data FROM history WHERE reason = 'the container was gone and was created again'"
    )
    assert recreated["data"] == {"containerId": new, "formerContainerId": old, "attempt": 1}


async def test_slots_of_a_former_backend_are_deleted(stage: Stage) -> None:
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


async def test_next_deployment_uses_changed_limits(stage: Stage) -> None:
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
    assert len(stage.backend.calls_of("ensure")) == 2, "created once and changed once"
    assert stage.slots()[0]["limits"] == "2.5/4096/0"


async def test_wrong_setting_deletes_no_container(stage: Stage) -> None:
    stage.backend.has_deployments = False
    stage.backend.status_lag_s = 0
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.state_after_start = ContainerState.ERROR
    await replica.admission.admit(bot_request())
    while await stage.step(replica):
        pass
    refused = BackendRefused("backends.coolify.token", "expired")
    stage.backend.fail("ensure", *[refused] * 9)
    for _ in range(9):
        await replica.observer.observe("process")
        await stage.step(replica)
        stage.clock.move(61)
    assert stage.slots()[0]["status"] == "error"
    assert stage.backend.calls_of("delete") == []


async def test_replica_without_the_backend_opens_no_gate(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    assert await replica.image_gate.open("coolify") == {}
