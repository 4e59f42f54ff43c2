"""The critical log points of seed 000 in every path: release, recreate, deployment status."""

from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from botpool.domain.errors import BackendRefused, ContainerGone
from botpool.domain.ids import AssignmentId, BotId, ContainerId
from botpool.domain.observation import ContainerState, DeploymentState
from botpool.domain.policy import Policy
from botpool.engine.replica import Replica
from tests.support.replicas import Stage, bot_request, pool

Log = list[dict[str, Any]]
SLOT = "pool-google-meet-001"
REFUSED = BackendRefused("image", "is not there")


@pytest.fixture
def log() -> Iterator[Log]:
    with structlog.testing.capture_logs() as captured:
        yield captured  # type: ignore[misc]


def at(log: Log, point: str) -> Log:
    return [line for line in log if line.get("point") == point]


def transitions(log: Log) -> list[tuple[str | None, str]]:
    return [(line["from"], line["to"]) for line in at(log, "deployment_status")]


async def start_deployment(stage: Stage, replica: Replica) -> BotId:
    """Admit a bot and issue its start on a backend with deployments."""
    stage.backend.has_deployments = True
    bot = (await replica.admission.admit(bot_request())).bot
    await stage.step(replica)
    return bot.id


async def call_as_agent(stage: Stage, replica: Replica, bot_id: BotId) -> None:
    slot = stage.slot_of(bot_id)
    assignment, container = AssignmentId(slot["assignment_id"]), ContainerId(slot["container_id"])
    await replica.agents.identify(assignment, container)


# Release: slot, bot, final bot status, duration.


@pytest.mark.parametrize(("attempts", "status"), [(1, "FAILED"), (2, "QUEUED")])
async def test_release_after_failed_deployment_names_status_after_it(
    stage: Stage, log: Log, attempts: int, status: str
) -> None:
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=attempts))
    stage.backend.fail("start", REFUSED)
    bot = (await replica.admission.admit(bot_request())).bot
    while not at(log, "release"):
        await stage.step(replica)
    (line,) = at(log, "release")
    assert (line["name"], line["bot"], line["bot_status"]) == (SLOT, bot.id, status)
    assert line["duration_s"] >= 0


async def test_release_after_cancelled_retry_names_cancelled(stage: Stage, log: Log) -> None:
    replica = await stage.replica(pool(1))
    stage.backend.fail("start", REFUSED)
    bot = (await replica.admission.admit(bot_request())).bot
    await stage.step(replica)
    assert stage.slot_of(bot.id)["status"] == "releasing"
    await replica.bot_stopper.stop(bot.id)
    await stage.settle(replica)
    (line,) = at(log, "release")
    assert line["bot_status"] == "CANCELLED"


async def test_release_by_operator_names_failed(stage: Stage, log: Log) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot
    await replica.slot_commands.release(stage.slot_of(bot.id)["id"], reason="by a test")
    await stage.settle(replica)
    (line,) = at(log, "release")
    assert (line["bot"], line["bot_status"]) == (bot.id, "FAILED")


async def test_release_with_handover_is_logged_once(stage: Stage, log: Log) -> None:
    replica = await stage.replica(pool(1))
    first = (await stage.run_bot(replica)).bot
    second = (await replica.admission.admit(bot_request())).bot
    await stage.end(replica, first.id)
    await stage.settle(replica)
    (line,) = at(log, "release")
    assert (line["bot"], line["bot_status"]) == (first.id, "DONE")
    assert [each["bot"] for each in at(log, "assign")] == [first.id, second.id]


# Recreate: slot, old id, new id, the slot's recovery attempt.


async def lose_at_release(stage: Stage, replica: Replica) -> str:
    """Run a bot whose container vanishes before its stop; returns the container's id."""
    bot = (await stage.run_bot(replica)).bot
    assert bot.container_id is not None
    stage.backend.lose(bot.container_id)
    await stage.end(replica, bot.id)
    await stage.settle(replica)
    return bot.container_id


async def test_container_lost_at_release_is_logged_at_next_bot(stage: Stage, log: Log) -> None:
    replica = await stage.replica(pool(1))
    former = await lose_at_release(stage, replica)
    assert not at(log, "recreate"), "nothing was created yet"
    second = (await stage.run_bot(replica, correlation_id="c-2")).bot
    (line,) = at(log, "recreate")
    assert (line["old"], line["new"]) == (former, second.container_id)
    assert line["old"] != line["new"]
    assert (line["name"], line["attempt"], line["correlation_id"]) == (SLOT, 1, "c-2")
    await stage.end(replica, second.id)
    await stage.run_bot(replica)
    assert len(at(log, "recreate")) == 1, "the next bot finds the new container"


async def test_container_lost_at_handover_is_logged(stage: Stage, log: Log) -> None:
    replica = await stage.replica(pool(1))
    first = (await stage.run_bot(replica)).bot
    second = (await replica.admission.admit(bot_request())).bot
    stage.backend.lose(first.container_id or "")
    await stage.end(replica, first.id)
    await stage.settle(replica)
    (line,) = at(log, "recreate")
    assert (line["old"], line["bot"]) == (first.container_id, second.id)
    assert line["new"] == stage.slot_of(second.id)["container_id"] != line["old"]


async def test_container_lost_before_reset_is_logged(stage: Stage, log: Log) -> None:
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.state_after_start = ContainerState.ERROR
    bot = (await replica.admission.admit(bot_request())).bot
    await stage.step(replica)
    former = stage.slot_of(bot.id)["container_id"]
    stage.backend.fail("stop", ContainerGone(former))
    await replica.observer.observe("process")
    stage.backend.lose(former)
    await stage.settle(replica)
    (line,) = at(log, "recreate")
    assert (line["old"], line["attempt"]) == (former, 1)
    assert line["new"] == stage.slots()[0]["container_id"] != former


async def test_recreation_names_recovery_attempt_of_slot(stage: Stage, log: Log) -> None:
    """The bot has its first attempt; the slot was reset twice since it was last busy."""
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.fail("start", REFUSED, REFUSED)
    for _ in range(2):
        await stage.run_bot(replica)
    (slot,) = stage.slots()
    assert (slot["status"], slot["resets"]) == ("idle", 2)
    stage.backend.lose(slot["container_id"])
    bot = (await stage.run_bot(replica)).bot
    (line,) = at(log, "recreate")
    assert (line["bot"], line["attempt"]) == (bot.id, 3)


async def test_recreation_that_is_not_stored_is_not_logged(stage: Stage, log: Log) -> None:
    """The user stops the bot while its container is created again: the write is fenced."""
    replica = await stage.replica(pool(1))
    first = (await stage.run_bot(replica)).bot
    await stage.end(replica, first.id)
    await stage.settle(replica)
    stage.backend.lose(first.container_id or "")
    created, proceed = stage.backend.hold_answer("ensure")
    second = (await replica.admission.admit(bot_request())).bot
    await replica.reconciler.run_due_steps()
    await created.wait()
    await replica.bot_stopper.stop(second.id)
    proceed.set()
    await stage.settle(replica)
    assert not at(log, "recreate")


# Deployment status: slot, deployment, status transition.


async def test_finished_deployment_is_logged_when_agent_calls_first(stage: Stage, log: Log) -> None:
    replica = await stage.replica(pool(1))
    bot = await start_deployment(stage, replica)
    await replica.observer.observe("process")
    await call_as_agent(stage, replica, bot)
    await call_as_agent(stage, replica, bot)
    for _ in range(2):
        await replica.observer.observe("process")
    assert transitions(log) == [
        (None, "issued"),
        ("issued", "in_progress"),
        ("in_progress", "finished"),
    ]
    assert {line["deployment"] for line in at(log, "deployment_status")} == {
        f"d{stage.slot_of(bot)['assignment_id']}"
    }


async def test_finished_deployment_is_logged_when_container_is_observed_running(
    stage: Stage, log: Log
) -> None:
    replica = await stage.replica(pool(1))
    bot = await start_deployment(stage, replica)
    stage.backend.finish(stage.slot_of(bot)["container_id"])
    stage.backend.show(stage.slot_of(bot)["container_id"], ContainerState.RUNNING)
    for _ in range(2):
        await replica.observer.observe("process")
    assert transitions(log) == [(None, "issued"), ("issued", "finished")]


async def test_deployment_status_is_logged_once_by_several_replicas(stage: Stage, log: Log) -> None:
    replicas = [await stage.replica(pool(1)) for _ in range(2)]
    bot = await start_deployment(stage, replicas[0])
    for replica in replicas:
        await replica.observer.observe("process")
    stage.backend.finish(stage.slot_of(bot)["container_id"])
    for replica in replicas:
        await replica.observer.observe("process")
    await call_as_agent(stage, replicas[1], bot)
    assert transitions(log) == [
        (None, "issued"),
        ("issued", "in_progress"),
        ("in_progress", "finished"),
    ]


async def test_failed_deployment_is_logged_once(stage: Stage, log: Log) -> None:
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    bot = await start_deployment(stage, replica)
    stage.backend.finish(stage.slot_of(bot)["container_id"], DeploymentState.FAILED)
    await stage.settle(replica)
    assert stage.statuses(bot) == ["FAILED"]
    assert transitions(log) == [(None, "issued"), ("issued", "failed")]


async def test_cancelled_deployment_is_logged(stage: Stage, log: Log) -> None:
    """The user stops the bot during the deployment; the release cancels the deployment."""
    replica = await stage.replica(pool(1))
    bot = await start_deployment(stage, replica)
    await replica.observer.observe("process")
    await replica.bot_stopper.stop(bot)
    await stage.settle(replica)
    assert stage.slots()[0]["status"] == "idle"
    assert transitions(log) == [
        (None, "issued"),
        ("issued", "in_progress"),
        ("in_progress", "cancelled"),
    ]


async def test_lost_deployment_is_logged_once(stage: Stage, log: Log) -> None:
    replica = await stage.replica(pool(1))
    bot = await start_deployment(stage, replica)
    stage.backend.containers[ContainerId(stage.slot_of(bot)["container_id"])].deployment = None
    for _ in range(2):
        await replica.observer.observe("process")
    assert transitions(log) == [(None, "issued"), ("issued", "lost")]
