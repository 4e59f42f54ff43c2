"""Log lines of the engine: every transition, and the five critical points of seed 000."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
import structlog

from botpool.domain.errors import BackendRefused, ContainerGone
from botpool.domain.ids import ContainerId
from botpool.domain.observation import ContainerState, DeploymentState
from botpool.domain.policy import Policy
from botpool.domain.states import BotStatus
from tests.engine.recovery_cases import pass_time, run_bot
from tests.support.replicas import MEET, TEAMS, Stage, bot_request, pool

Log = list[dict[str, Any]]
SLOT = "pool-google-meet-001"


@pytest.fixture
def log() -> Iterator[Log]:
    with structlog.testing.capture_logs() as captured:
        yield captured  # type: ignore[misc]


def of(log: Log, **wanted: Any) -> Log:
    return [line for line in log if all(line.get(key) == value for key, value in wanted.items())]


async def test_every_transition_of_slot_is_logged(stage: Stage, log: Log) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica, correlation_id="c-1")).bot
    await stage.end(replica, bot.id)
    await stage.settle(replica)
    (slot,) = stage.slots()
    container = slot["container_id"]
    await replica.pools.remove(slot["id"], reason="deleted by a test", correlation_id="c-2")
    await stage.settle(replica)
    lines = of(log, event="slot.transition")
    assert {(line["slot"], line["name"]) for line in lines} == {(slot["id"], SLOT)}
    fields = ("from", "to", "bot", "correlation_id", "container", "reason")
    assert [tuple(line[key] for key in fields) for line in lines] == [
        (None, "idle", None, None, None, "the pool grew"),
        ("idle", "deploying", bot.id, "c-1", None, "assigned"),
        ("deploying", "busy", bot.id, "c-1", container, "observed running"),
        ("busy", "releasing", bot.id, "c-1", container, "reported by the agent"),
        ("releasing", "idle", bot.id, "c-1", container, "the stop was confirmed"),
        ("idle", "deleting", None, "c-2", container, "deleted by a test"),
        ("deleting", None, None, None, container, "its container is gone"),
    ]
    history = stage.rows(
        "SELECT from_state, to_state FROM history WHERE kind = 'slot.status' ORDER BY id"
    )
    assert [(line["from"], line["to"]) for line in lines] == [
        (row["from_state"], row["to_state"]) for row in history
    ]


async def test_assignment_is_logged_with_slot_and_bot(stage: Stage, log: Log) -> None:
    """The point `assign`: slot, bot, previous state, container."""
    replica = await stage.replica(pool(1))
    first = (await stage.run_bot(replica)).bot
    await stage.end(replica, first.id)
    await stage.settle(replica)
    second = (await replica.admission.admit(bot_request())).bot
    cold, warm = of(log, point="assign")
    assert (cold["name"], cold["bot"], cold["from"]) == (SLOT, first.id, "idle")
    assert cold["container"] is None
    assert (warm["name"], warm["bot"], warm["from"]) == (SLOT, second.id, "idle")
    assert warm["container"] == second.container_id is not None


async def test_release_is_logged_with_status_and_duration(stage: Stage, log: Log) -> None:
    """The point `release`: slot, bot, final status, duration."""
    replica = await stage.replica(pool(1))
    stage.clock.freeze()
    bot = (await stage.run_bot(replica)).bot
    stage.clock.move(90)
    await stage.end(replica, bot.id)
    await stage.settle(replica)
    (line,) = of(log, point="release")
    assert (line["name"], line["bot"]) == (SLOT, bot.id)
    assert (line["bot_status"], line["duration_s"]) == ("DONE", 90)


async def test_recreation_before_start_is_logged(stage: Stage, log: Log) -> None:
    """The point `recreate`: old container, new container, attempt."""
    replica = await stage.replica(pool(1))
    first = (await stage.run_bot(replica)).bot
    await stage.end(replica, first.id)
    await stage.settle(replica)
    (slot,) = stage.slots()
    stage.backend.lose(slot["container_id"])
    second = (await stage.run_bot(replica, correlation_id="c-2")).bot
    (line,) = of(log, point="recreate")
    assert (line["slot"], line["name"], line["bot"]) == (slot["id"], SLOT, second.id)
    assert (line["old"], line["new"]) == (slot["container_id"], second.container_id)
    assert (line["attempt"], line["correlation_id"]) == (1, "c-2")


async def test_recreation_in_reset_is_logged(stage: Stage, log: Log) -> None:
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    first = (await stage.run_bot(replica)).bot
    await stage.end(replica, first.id)
    await stage.settle(replica)
    (slot,) = stage.slots()
    stage.backend.fail("start", BackendRefused("image", "is not there"))
    await replica.admission.admit(bot_request())
    while stage.slots()[0]["status"] != "error":
        await stage.step(replica)
    stage.backend.lose(slot["container_id"])
    await stage.settle(replica)
    (line,) = of(log, point="recreate")
    assert (line["old"], line["attempt"]) == (slot["container_id"], 1)
    assert line["new"] == stage.slots()[0]["container_id"] != line["old"]


async def test_container_that_is_gone_at_release_is_logged(stage: Stage, log: Log) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot
    stage.backend.fail("stop", ContainerGone(bot.container_id or ""))
    await stage.end(replica, bot.id)
    await stage.step(replica)
    (line,) = of(log, point="release")
    assert (line["container"], line["gone_container"]) == (None, bot.container_id)


async def test_lost_heartbeat_is_logged(stage: Stage, log: Log) -> None:
    """The point `heartbeat_timeout`: slot, bot, last heartbeat, threshold."""
    replica = await stage.replica(pool(1))
    bot = await run_bot(stage, replica)
    (heartbeat,) = stage.rows("SELECT last_at FROM bot_heartbeats")
    await pass_time(stage, replica, 310)
    slot = stage.slot_of(bot)
    await replica.recovery.recover()
    (line,) = of(log, point="heartbeat_timeout")
    assert (line["slot"], line["name"]) == (slot["id"], SLOT)
    assert (line["bot"], line["container"]) == (bot, slot["container_id"])
    assert datetime.fromisoformat(line["last_heartbeat_at"]) == heartbeat["last_at"]
    assert line["threshold_s"] == 300
    assert (line["log_level"], line["correlation_id"]) == ("warning", "corr")


async def test_deployment_status_changes_are_logged_once(stage: Stage, log: Log) -> None:
    """The point `deployment_status`: slot, deployment, from, to."""
    replica = await stage.replica(pool(1))
    stage.backend.has_deployments = True
    bot = (await replica.admission.admit(bot_request(correlation_id="c-1"))).bot
    await stage.step(replica)
    container = ContainerId(stage.slot_of(bot.id)["container_id"])
    stage.backend.containers[container].deployment = DeploymentState.QUEUED
    for _ in range(2):
        await replica.observer.observe("process")
    stage.backend.containers[container].deployment = DeploymentState.IN_PROGRESS
    await replica.observer.observe("process")
    stage.backend.finish(container)
    for _ in range(2):
        await replica.observer.observe("process")
    stage.backend.show(container, ContainerState.RUNNING)
    await replica.observer.observe("process")
    lines = of(log, point="deployment_status")
    assert {(line["name"], line["bot"], line["container"]) for line in lines} == {
        (SLOT, bot.id, container)
    }
    assert {line["correlation_id"] for line in lines} == {"c-1"}
    (deployment,) = {line["deployment"] for line in lines}
    assert deployment == f"d{stage.slot_of(bot.id)['assignment_id']}"
    assert [(line["from"], line["to"]) for line in lines] == [
        (None, "issued"),
        ("issued", "queued"),
        ("queued", "in_progress"),
        ("in_progress", "finished"),
    ]


async def test_status_change_without_slot_is_logged(stage: Stage, log: Log) -> None:
    replica = await stage.replica(pool(1), pool(0, TEAMS), policy=Policy(deploy_attempts=2))
    cancelled = (await replica.admission.admit(bot_request(TEAMS, correlation_id="c-1"))).bot
    await replica.bot_stopper.stop(cancelled.id)
    await replica.admission.admit(bot_request(TEAMS, correlation_id="c-2", queue_timeout_ms=1000))
    stage.clock.move(2)
    await replica.queue_poller.poll()
    refusals = [BackendRefused("image", "is not there") for _ in range(2)]
    stage.backend.fail("start", *refusals)
    await stage.run_bot(replica, correlation_id="c-3")
    fields = ("correlation_id", "pool", "from", "to", "reason")
    why = "image: is not there"
    assert [tuple(line[key] for key in fields) for line in of(log, event="bot.transition")] == [
        ("c-1", TEAMS, "PENDING", "QUEUED", "no slot was free"),
        ("c-1", TEAMS, "QUEUED", "CANCELLED", "stopped by its user"),
        ("c-2", TEAMS, "PENDING", "QUEUED", "no slot was free"),
        ("c-2", TEAMS, "QUEUED", "FAILED", "queue timeout"),
        ("c-3", MEET, "DEPLOYING", "QUEUED", why),
        ("c-3", MEET, "DEPLOYING", "FAILED", why),
    ]


async def test_applied_agent_report_is_logged_once(stage: Stage, log: Log) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot
    assignment = stage.slot_of(bot.id)["assignment_id"]
    for status in (BotStatus.IN_CALL, BotStatus.IN_WAITING_ROOM):
        await replica.agents.report(assignment, bot.id, status, None)
    (line,) = of(log, event="bot.transition")
    assert (line["bot"], line["from"], line["to"]) == (bot.id, "JOINING_CALL", "IN_CALL")


async def test_request_to_leave_is_logged_once(stage: Stage, log: Log) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica, correlation_id="c-1")).bot
    for _ in range(2):
        await replica.bot_stopper.stop(bot.id)
    (line,) = of(log, event="bot.transition")
    assert (line["bot"], line["pool"], line["correlation_id"]) == (bot.id, MEET, "c-1")
    assert (line["from"], line["to"]) == ("JOINING_CALL", "LEAVING")
