"""Infrastructure faults, such as evictions: retried under the same bot id before the call.

A crash before the commit of a fault: the next observation repeats it. A crash after it: the slot is
releasing, and the bot is queued after the confirmed stop. A repeated or late observation finds
another version and changes nothing.
"""

import asyncio
from typing import Any

import pytest

from botpool.domain.communication import Outcome
from botpool.domain.ids import AssignmentId, BotId
from botpool.domain.observation import ContainerState
from botpool.domain.policy import Policy
from botpool.domain.states import BotStatus
from botpool.engine.replica import Replica
from tests.support.invariants import assert_invariants
from tests.support.replicas import Stage, bot_request, pool

EVICTED = "the node evicted the pod: low on memory"


def container(stage: Stage) -> str:
    return str(stage.slots()[0]["container_id"])


async def joined(stage: Stage, replica: Replica, *statuses: BotStatus, **changes: Any) -> BotId:
    """A bot whose agent called and reported statuses."""
    bot = (await stage.run_bot(replica, **changes)).bot.id
    assignment = AssignmentId(stage.slot_of(bot)["assignment_id"])
    await replica.agents.heartbeat(assignment, bot)
    for status in statuses:
        assert await replica.agents.report(assignment, bot, status, None)
    return bot


def bot_history(stage: Stage, bot: BotId) -> list[str]:
    rows = stage.rows(
        "SELECT to_state FROM history WHERE bot_id = %s AND kind = 'bot.status' ORDER BY id", bot
    )
    return [row["to_state"] for row in rows]


@pytest.mark.parametrize("statuses", [(), (BotStatus.IN_WAITING_ROOM,)])
async def test_bot_before_its_call_is_retried_although_its_agent_called(
    stage: Stage, statuses: tuple[BotStatus, ...]
) -> None:
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    bot = await joined(stage, replica, *statuses)
    stage.backend.evict(container(stage), EVICTED)
    await stage.settle(replica)
    assert stage.statuses(bot) == ["JOINING_CALL"]
    assert bot_history(stage, bot)[-4:] == ["DEPLOYING", "QUEUED", "DEPLOYING", "JOINING_CALL"]
    (row,) = stage.rows("SELECT reason, data FROM history WHERE to_state = 'QUEUED'")
    assert row["reason"] == EVICTED
    assert row["data"] == {"attempts": 1, "infrastructureRetries": 1}
    assert stage.slots()[0]["resets"] == 0, "the slot is not at fault"
    assert b'cause="infrastructure"' in await replica.metrics_export.text()
    assert len(stage.backend.runs) == 2
    assert_invariants(stage.url)


async def test_starting_bot_is_retried_without_an_attempt(stage: Stage) -> None:
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.state_after_start = ContainerState.STARTING
    bot = (await replica.admission.admit(bot_request())).bot.id
    await stage.settle(replica)
    stage.backend.evict(container(stage), EVICTED, code=None)
    stage.backend.state_after_start = ContainerState.RUNNING
    await stage.settle(replica)
    assert stage.statuses(bot) == ["JOINING_CALL"]


async def test_faults_leave_the_attempts_for_failed_deployments(stage: Stage) -> None:
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=2))
    bot = await joined(stage, replica)
    stage.backend.evict(container(stage), EVICTED)
    stage.backend.state_after_start = ContainerState.ERROR
    await stage.settle(replica)
    assert stage.bot(bot)["attempts"] == 3
    assert (stage.bot(bot)["status"], stage.bot(bot)["failure_code"]) == ("FAILED", "deploy_failed")


async def test_bot_fails_after_the_limit_of_retries(stage: Stage) -> None:
    replica = await stage.replica(pool(1), policy=Policy(infrastructure_retries=2))
    bot = await joined(stage, replica)
    for _ in range(3):
        assert stage.statuses(bot) == ["JOINING_CALL"]
        stage.backend.evict(container(stage), EVICTED)
        await stage.settle(replica)
    failed = stage.bot(bot)
    assert (failed["status"], failed["failure_code"]) == ("FAILED", "container_exited")
    assert failed["failure_reason"] == EVICTED
    assert stage.slots()[0]["status"] == "idle"


@pytest.mark.parametrize(
    "statuses",
    [(BotStatus.IN_CALL,), (BotStatus.IN_CALL, BotStatus.CALL_ENDED), (BotStatus.CALL_ENDED,)],
)
async def test_bot_in_its_call_fails_although_its_program_exits_with_0(
    stage: Stage, statuses: tuple[BotStatus, ...]
) -> None:
    replica = await stage.replica(pool(1))
    bot = await joined(stage, replica, *statuses)
    stage.backend.evict(container(stage), EVICTED, code=0)
    await stage.settle(replica)
    failed = stage.bot(bot)
    assert (failed["status"], failed["failure_code"]) == ("FAILED", "container_exited")
    assert f"The container exited unexpectedly: {EVICTED}." in failed["failure_reason"]


async def test_end_that_the_agent_reported_stands(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await joined(stage, replica, BotStatus.IN_CALL)
    await stage.end(replica, bot)
    stage.backend.evict(container(stage), EVICTED)
    await stage.settle(replica)
    assert stage.statuses(bot) == ["DONE"]


async def test_program_whose_exit_code_decides_may_have_been_in_the_call(stage: Stage) -> None:
    replica = await stage.replica(pool(1, outcome=Outcome.EXIT_CODE))
    bot = (await stage.run_bot(replica)).bot.id
    stage.backend.evict(container(stage), EVICTED, code=0)
    await stage.settle(replica)
    assert stage.bot(bot)["failure_code"] == "container_exited"


async def test_stop_of_the_user_wins_over_the_retry(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await joined(stage, replica)
    await replica.bot_stopper.stop(bot)
    stage.backend.evict(container(stage), EVICTED)
    await stage.settle(replica)
    assert stage.statuses(bot) == ["CANCELLED"]


async def test_stop_of_the_user_between_fault_and_retry_wins(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await joined(stage, replica)
    stage.backend.evict(container(stage), EVICTED)
    await replica.observer.observe("process")
    assert stage.statuses(bot) == ["DEPLOYING"]
    await replica.bot_stopper.stop(bot)
    await stage.settle(replica)
    assert stage.statuses(bot) == ["CANCELLED"]
    assert len(stage.backend.runs) == 1


async def test_late_observation_of_the_fault_changes_nothing(stage: Stage) -> None:
    replica, other = await stage.replica(pool(1)), await stage.replica(pool(1))
    bot = await joined(stage, replica)
    stage.backend.evict(container(stage), EVICTED)
    observed, proceed = stage.backend.hold_answer("observe")
    late = asyncio.create_task(other.observer.observe("process"))
    await observed.wait()
    await stage.settle(replica)
    before = stage.slots()
    proceed.set()
    await late
    assert stage.slots() == before
    assert stage.statuses(bot) == ["JOINING_CALL"]


async def test_report_of_the_call_during_the_observation_wins(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await joined(stage, replica)
    stage.backend.evict(container(stage), EVICTED)
    observed, proceed = stage.backend.hold_answer("observe")
    late = asyncio.create_task(replica.observer.observe("process"))
    await observed.wait()
    assignment = AssignmentId(stage.slot_of(bot)["assignment_id"])
    await replica.agents.report(assignment, bot, BotStatus.IN_CALL, None)
    proceed.set()
    await late
    await stage.settle(replica)
    assert stage.bot(bot)["failure_code"] == "container_exited"


async def test_recovery_pass_retries_too(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await joined(stage, replica)
    stage.clock.move(301)
    stage.backend.evict(container(stage), EVICTED)
    await replica.recovery.recover()
    await stage.settle(replica)
    assert stage.statuses(bot) == ["JOINING_CALL"]
    assert len(stage.backend.runs) == 2
