"""Stops on a backend whose status lags: confirmation, repetition and deletion."""

import asyncio

import pytest

from botpool.domain.errors import (
    BackendRefused,
    BackendUnavailable,
    StillRunning,
)
from botpool.domain.observation import ContainerState, DeploymentState
from tests.engine.lagging_backend import container, deployed, observed_running
from tests.support.invariants import assert_invariants
from tests.support.replicas import Stage, pool


@pytest.fixture(autouse=True)
def coolify_like(stage: Stage) -> None:
    stage.backend.has_deployments = True
    stage.backend.status_lag_s = 60.0


async def test_stop_is_sent_once_and_confirmed_by_an_observation(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    await observed_running(stage, replica)
    stage.backend.stops_work = False
    await stage.end(replica, bot)
    await stage.step(replica)
    observed = len(stage.backend.calls_of("observe"))
    for _ in range(3):
        stage.clock.move(15)
        await stage.step(replica)
        await replica.observer.observe("process")
        assert stage.slots()[0]["status"] == "releasing"
    assert len(stage.backend.calls_of("stop")) == 1
    assert len(stage.backend.calls_of("observe")) == observed + 3
    stage.backend.show(container(stage), ContainerState.EXITED)
    await replica.observer.observe("process")
    assert stage.slots()[0]["status"] == "idle"
    assert_invariants(stage.url)


async def test_old_status_confirms_no_stop_before_the_lag_has_passed(
    stage: Stage,
) -> None:
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    await replica.bot_stopper.stop(bot)
    await stage.step(replica)
    stage.clock.move(59)
    await replica.observer.observe("process")
    assert stage.slots()[0]["status"] == "releasing"
    stage.clock.move(2)
    await replica.observer.observe("process")
    assert stage.slots()[0]["status"] == "idle"


async def test_agent_call_alone_does_not_make_an_old_status_confirm_a_stop(
    stage: Stage,
) -> None:
    """A bot ends while the status still shows the state before its start."""
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    stage.backend.finish(container(stage))
    await replica.agents.heartbeat(stage.slots()[0]["assignment_id"], bot)
    stage.backend.stops_work = False
    await stage.end(replica, bot)
    await stage.step(replica)
    stage.clock.move(59)
    await replica.observer.observe("process")
    assert stage.slots()[0]["status"] == "releasing"
    stage.clock.move(2)
    await replica.observer.observe("process")
    assert stage.slots()[0]["status"] == "idle"


async def test_first_observation_of_a_running_container_is_recorded(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    stage.backend.finish(container(stage))
    await replica.agents.heartbeat(stage.slots()[0]["assignment_id"], bot)
    stage.backend.show(container(stage), ContainerState.RUNNING)
    await replica.observer.observe("process")
    await stage.end(replica, bot)
    await stage.step(replica)
    stage.backend.show(container(stage), ContainerState.EXITED)
    await replica.observer.observe("process")
    assert stage.slots()[0]["status"] == "idle"


async def test_refused_start_needs_no_stop(stage: Stage) -> None:
    """A token that may not deploy may not stop either, so a stop would never succeed."""
    replica = await stage.replica(pool(1))
    refused = BackendRefused("backends.coolify.token", "lacks the ability deploy")
    stage.backend.fail("start", refused, refused)
    bot = await deployed(stage, replica)
    await stage.settle(replica)
    assert stage.backend.calls_of("stop") == []
    assert stage.bot(bot)["status"] == "FAILED"
    assert "deploy" in stage.bot(bot)["failure_reason"]
    health = await replica.readiness.backend_health("process")
    assert health.ok, "the refusal expired the last health check"


async def test_repeated_start_that_is_refused_is_stopped(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    stage.backend.fail("start", BackendUnavailable("no answer"))
    bot = await deployed(stage, replica)
    stage.backend.fail("start", BackendRefused("backends.coolify.token", "expired"))
    stage.clock.move(20)
    while await stage.step(replica):
        pass
    assert stage.slots()[0]["error_message"] == "backends.coolify.token: expired"
    assert len(stage.backend.calls_of("stop")) == 1, "the first start may have started a container"
    assert stage.statuses(bot) == ["DEPLOYING"]


async def test_stop_without_effect_is_repeated_and_then_the_container_deleted(
    stage: Stage,
) -> None:
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    await observed_running(stage, replica)
    stage.backend.stops_work = False
    await stage.end(replica, bot)
    for _ in range(30):
        await stage.step(replica)
        await replica.observer.observe("process")
        stage.clock.move(15)
    assert 2 <= len(stage.backend.calls_of("stop")) <= 4
    assert len(stage.backend.calls_of("delete")) == 1
    assert stage.slots()[0]["status"] == "idle"


async def test_observation_does_not_free_a_slot_while_its_stop_is_sent(stage: Stage) -> None:
    """The stop would reach the next bot."""
    replica, other = await stage.replica(pool(1)), await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    await observed_running(stage, replica)
    await stage.end(replica, bot)
    stage.backend.stops_work = False
    await stage.step(replica)
    stage.clock.move(80)
    come, go_on = stage.backend.hold("stop")
    await replica.reconciler.run_due_steps()
    await come.wait()
    stage.backend.show(container(stage), ContainerState.EXITED)
    await other.observer.observe("process")
    assert stage.slots()[0]["status"] == "releasing"
    go_on.set()
    await asyncio.gather(*replica.reconciler.under_way)
    await other.observer.observe("process")
    assert stage.slots()[0]["status"] == "idle"


async def test_stop_during_a_deployment_is_repeated(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    await replica.bot_stopper.stop(bot)
    await stage.step(replica)
    stage.backend.finish(container(stage), DeploymentState.IN_PROGRESS)
    stage.clock.move(61)
    await replica.observer.observe("process")
    assert stage.slots()[0]["stop_issued_at"] is None
    await stage.step(replica)
    stage.clock.move(59)
    await replica.observer.observe("process")
    assert stage.slots()[0]["status"] == "releasing", "the lag counts from the second stop"
    stage.clock.move(2)
    await replica.observer.observe("process")
    assert stage.slots()[0]["status"] == "idle"


async def test_stop_to_an_unreachable_server_is_repeated(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    await observed_running(stage, replica)
    await stage.end(replica, bot)
    stage.backend.stops_work = False
    await stage.step(replica)
    stage.backend.status_unreliable = True
    await replica.observer.observe("process")
    stage.backend.status_unreliable = False
    stage.backend.show(container(stage), ContainerState.EXITED)
    stage.clock.move(70)
    await replica.observer.observe("process")
    assert stage.slots()[0]["status"] == "releasing", "the stop may not have arrived"
    stage.clock.move(10)
    await stage.step(replica)
    assert len(stage.backend.calls_of("stop")) == 2
    await replica.observer.observe("process")
    assert stage.slots()[0]["status"] == "idle"


async def test_deployment_that_cannot_be_cancelled_ends_in_deletion(
    stage: Stage,
) -> None:
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    await replica.bot_stopper.stop(bot)
    stage.backend.fail("stop", *[StillRunning("it is being cancelled")] * 100)
    for _ in range(20):
        await stage.step(replica)
        stage.clock.move(15)
    assert len(stage.backend.calls_of("delete")) == 1
    assert stage.slots()[0]["status"] == "idle"


async def test_one_unknown_container_does_not_delay_the_others(stage: Stage) -> None:
    replica = await stage.replica(pool(2))
    for _ in range(2):
        await deployed(stage, replica)
        for slot in stage.slots():
            stage.backend.finish(slot["container_id"])
            stage.backend.show(slot["container_id"], ContainerState.RUNNING)
        await replica.observer.observe("process")
    odd, leaving = (slot["container_id"] for slot in stage.slots())
    stage.backend.show(odd, ContainerState.UNKNOWN)
    await stage.end(replica, stage.slots()[1]["assigned_bot_id"])
    await stage.step(replica)
    stage.backend.show(leaving, ContainerState.EXITED)
    await replica.observer.observe("process")
    assert [slot["status"] for slot in stage.slots()] == ["busy", "idle"]


async def test_container_in_deletion_gets_no_next_bot(stage: Stage) -> None:
    """The backend deletes later and shows the container stopped until then."""
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    await observed_running(stage, replica)
    stage.backend.stops_work = stage.backend.deletes_at_once = False
    await stage.end(replica, bot)
    for _ in range(20):
        await stage.step(replica)
        await replica.observer.observe("process")
        stage.clock.move(15)
    assert stage.backend.calls_of("delete")
    stage.backend.show(container(stage), ContainerState.EXITED)
    await replica.observer.observe("process")
    assert stage.slots()[0]["status"] == "releasing"
    stage.backend.lose(container(stage))
    await replica.observer.observe("process")
    assert (stage.slots()[0]["status"], stage.slots()[0]["container_id"]) == ("idle", None)


async def test_container_that_stopped_during_an_outage_is_not_deleted(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    await observed_running(stage, replica)
    await stage.end(replica, bot)
    await stage.step(replica)
    stage.clock.move(900)
    await stage.step(replica)
    assert stage.slots()[0]["status"] == "idle"
    assert stage.backend.calls_of("delete") == []


async def test_late_observation_frees_nothing(stage: Stage) -> None:
    """Another replica has leased the slot and is sending the stop again."""
    replica, other = await stage.replica(pool(1)), await stage.replica(pool(1))
    bot = await deployed(stage, replica)
    await observed_running(stage, replica)
    await stage.end(replica, bot)
    stage.backend.stops_work = False
    await stage.step(replica)
    stage.backend.show(container(stage), ContainerState.EXITED)
    acted, answer = stage.backend.hold_answer("observe")
    late = asyncio.create_task(other.observer.observe("process"))
    await acted.wait()
    stage.clock.move(80)
    come, go_on = stage.backend.hold("stop")
    await replica.reconciler.run_due_steps()
    await come.wait()
    answer.set()
    await late
    assert stage.slots()[0]["status"] == "releasing"
    go_on.set()
    await asyncio.gather(*replica.reconciler.under_way)


async def test_container_from_before_an_upgrade_is_stopped(stage: Stage) -> None:
    """An older replica does not write when a start was allowed."""
    stage.backend.has_deployments = False
    stage.backend.status_lag_s = 0
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot
    stage.rows("UPDATE bot_pool_slots SET start_allowed_at = NULL, version = version + 1")
    await stage.end(replica, bot.id)
    await stage.settle(replica)
    assert len(stage.backend.calls_of("stop")) == 1
