"""The phase finishing: a bot that saves its recording is not stopped early, and never falsely DONE.

A crash before the report of CALL_ENDED is committed: the agent repeats it. After it, the deadline
is a row that any replica enforces. Between the lease of a step and its write, the lease expires and
the step is repeated. A second report, heartbeat or step changes nothing and restarts no time; a
late one, after the end of the bot, changes nothing either.
"""

from dataclasses import replace
from typing import Any

import pytest

from botpool.backends.protocol import StopMode
from botpool.domain.communication import LeaveBy, Outcome
from botpool.domain.errors import BackendUnavailable
from botpool.domain.heartbeat import AgentPhase, HeartbeatReport
from botpool.domain.ids import AssignmentId, BotId
from botpool.domain.observation import ContainerState
from botpool.domain.policy import Policy
from botpool.domain.states import BotStatus
from botpool.engine.replica import Replica
from tests.support.replaced_statements import replaced_statements
from tests.support.replicas import Stage, pool

FINISHING = HeartbeatReport(phase=AgentPhase.FINISHING)


async def in_call(stage: Stage, replica: Replica) -> tuple[BotId, AssignmentId]:
    bot = (await stage.run_bot(replica)).bot.id
    assignment = AssignmentId(stage.slots()[0]["assignment_id"])
    await replica.liveness.record()
    await replica.agents.report(assignment, bot, BotStatus.IN_CALL, None)
    return bot, assignment


async def pass_time(stage: Stage, replica: Replica, seconds: float) -> None:
    """Let time pass in which this replica is alive: no gap."""
    while seconds > 0:
        stage.clock.move(min(seconds, 20))
        seconds -= 20
        await replica.liveness.record()
    await stage.settle(replica)


def progress(**figures: Any) -> HeartbeatReport:
    return HeartbeatReport(progress=figures)


@pytest.mark.parametrize("acknowledged_by", ["CALL_ENDED", "heartbeat"])
async def test_bot_that_was_asked_to_leave_has_its_time_to_finish(
    stage: Stage, acknowledged_by: str
) -> None:
    replica = await stage.replica(pool(1))
    bot, assignment = await in_call(stage, replica)
    await replica.bot_stopper.stop(bot)
    if acknowledged_by == "CALL_ENDED":
        await replica.agents.report(assignment, bot, BotStatus.CALL_ENDED, None)
    else:
        await replica.agents.heartbeat(assignment, bot, FINISHING)
    assert stage.bot(bot)["finishing_at"] is not None
    for _ in range(4):
        await pass_time(stage, replica, 60)
        assert stage.bot(bot)["ended_at"] is None, "the grace of the leave request is over"
    await replica.bot_stopper.stop(bot)
    await pass_time(stage, replica, 60)
    assert await stage.end(replica, bot)
    assert stage.statuses(bot) == ["DONE"]


async def test_request_to_leave_without_acknowledgement_keeps_its_grace(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot, assignment = await in_call(stage, replica)
    await replica.bot_stopper.stop(bot)
    await replica.agents.heartbeat(assignment, bot, progress(bytes=1))
    await pass_time(stage, replica, 29)
    assert stage.statuses(bot) == ["LEAVING"]
    await pass_time(stage, replica, 2)
    assert stage.statuses(bot) == ["CANCELLED"]


async def test_bot_that_hangs_while_finishing_fails_although_its_heartbeats_continue(
    stage: Stage,
) -> None:
    replica = await stage.replica(pool(1))
    bot, assignment = await in_call(stage, replica)
    await replica.agents.report(assignment, bot, BotStatus.CALL_ENDED, None)
    await replica.agents.heartbeat(assignment, bot, progress(bytes=1))
    for _ in range(14):
        await pass_time(stage, replica, 60)
        await replica.agents.heartbeat(assignment, bot, progress(bytes=1))
        assert stage.statuses(bot) == ["CALL_ENDED"]
    await pass_time(stage, replica, 61)
    ended = stage.bot(bot)
    assert (ended["status"], ended["failure_code"]) == ("FAILED", "finish_timeout")
    assert '{"bytes": 1}' in ended["failure_reason"]
    assert not await stage.end_late(replica, bot, assignment), "a late DONE applied"
    assert stage.statuses(bot) == ["FAILED"]
    assert stage.backend.running == []


async def test_progress_restarts_the_time_to_finish_up_to_the_maximum_duration(
    stage: Stage,
) -> None:
    replica = await stage.replica(pool(1), policy=Policy(max_duration_s=3_600))
    bot, assignment = await in_call(stage, replica)
    await replica.agents.report(assignment, bot, BotStatus.CALL_ENDED, None)
    for minute in range(4):
        await replica.agents.heartbeat(assignment, bot, progress(bytes=minute))
        await pass_time(stage, replica, 14 * 60)
        assert stage.statuses(bot) == ["CALL_ENDED"]
    await replica.agents.heartbeat(assignment, bot, progress(bytes=99))
    await pass_time(stage, replica, 5 * 60)
    assert stage.bot(bot)["failure_code"] == "finish_timeout"


async def test_maximum_duration_does_not_end_a_bot_that_is_finishing(stage: Stage) -> None:
    replica = await stage.replica(pool(1), policy=Policy(max_duration_s=600))
    bot, assignment = await in_call(stage, replica)
    await pass_time(stage, replica, 590)
    await replica.agents.report(assignment, bot, BotStatus.CALL_ENDED, None)
    await pass_time(stage, replica, 890)
    assert stage.statuses(bot) == ["CALL_ENDED"]
    await pass_time(stage, replica, 20)
    assert stage.bot(bot)["failure_code"] == "finish_timeout"


async def test_repeated_acknowledgements_do_not_restart_the_time(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot, assignment = await in_call(stage, replica)
    await replica.agents.heartbeat(assignment, bot, FINISHING)
    began_at = stage.bot(bot)["finishing_at"]
    await pass_time(stage, replica, 600)
    await replica.agents.heartbeat(assignment, bot, FINISHING)
    await replica.agents.report(assignment, bot, BotStatus.CALL_ENDED, None)
    assert stage.bot(bot)["finishing_at"] == began_at
    await pass_time(stage, replica, 310)
    assert stage.bot(bot)["failure_code"] == "finish_timeout"
    await replica.agents.heartbeat(assignment, bot, FINISHING)
    assert [
        row["to_state"]
        for row in stage.rows("SELECT to_state FROM history WHERE kind = 'bot.phase'")
    ] == ["finishing"]


async def test_another_replica_enforces_and_extends_the_time_to_finish(stage: Stage) -> None:
    first = await stage.replica(pool(1))
    bot, assignment = await in_call(stage, first)
    await first.agents.report(assignment, bot, BotStatus.CALL_ENDED, None)
    second = await stage.replica(pool(1, image="demo:2"))
    await second.agents.heartbeat(assignment, bot, progress(bytes=5))
    await second.pools.drain(pool(1).pool_name, drained=True, reason="test")
    await pass_time(stage, second, 240)
    assert stage.statuses(bot) == ["CALL_ENDED"]
    assert await stage.end(second, bot)
    await stage.settle(second)
    assert stage.slots()[0]["status"] == "idle"


async def test_call_that_ends_during_the_step_of_its_deadline_is_not_cut_off(stage: Stage) -> None:
    """The report arrives between the lease of the overdue slot and the write that ends the bot."""
    replica = await stage.replica(pool(1), policy=Policy(max_duration_s=60))
    bot, assignment = await in_call(stage, replica)
    stage.clock.move(61)

    async def report_first(*arguments: Any, **options: Any) -> bool:
        await replica.agents.report(assignment, bot, BotStatus.CALL_ENDED, None)
        return await end(*arguments, **options)

    end = replica.bot_endings.end
    replica.bot_endings.end = report_first  # type: ignore[method-assign]
    try:
        await stage.step(replica)
    finally:
        replica.bot_endings.end = end  # type: ignore[method-assign]
    await stage.settle(replica)
    assert stage.statuses(bot) == ["CALL_ENDED"]


async def test_clock_set_back_keeps_the_time_to_finish(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot, assignment = await in_call(stage, replica)
    await replica.agents.report(assignment, bot, BotStatus.CALL_ENDED, None)
    await replica.agents.heartbeat(assignment, bot, progress(bytes=5))
    stage.clock.move(-3_600)
    await replica.recovery.run()
    await pass_time(stage, replica, 890)
    assert stage.statuses(bot) == ["CALL_ENDED"]
    await pass_time(stage, replica, 20)
    assert stage.bot(bot)["failure_code"] == "finish_timeout"


async def test_outage_of_botpool_restarts_the_time_to_finish(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot, assignment = await in_call(stage, replica)
    await replica.agents.report(assignment, bot, BotStatus.CALL_ENDED, None)
    stage.clock.move(7_200)
    await stage.settle(replica)
    assert stage.statuses(bot) == ["CALL_ENDED"], "the bot could not report its progress"
    assert await stage.end(replica, bot)


# The request to leave as a signal.


SIGNAL = replace(pool(1), leave=LeaveBy.SIGNAL, outcome=Outcome.EXIT_CODE, heartbeats="none")


async def test_leave_by_signal_is_sent_once_and_starts_the_time_to_finish(stage: Stage) -> None:
    replica = await stage.replica(SIGNAL)
    stage.backend.obeys_signals = False
    bot = (await stage.run_bot(replica)).bot.id
    await replica.bot_stopper.stop(bot)
    await stage.settle(replica)
    assert stage.backend.stop_modes == [StopMode.ASK]
    await replica.bot_stopper.stop(bot)
    await pass_time(stage, replica, 240)
    assert stage.statuses(bot) == ["LEAVING"]
    assert stage.backend.stop_modes == [StopMode.ASK], "one signal, and time to finish"
    stage.backend.exit(stage.slots()[0]["container_id"], 0)
    await stage.settle(replica)
    assert stage.statuses(bot) == ["DONE"]


async def test_signal_to_leave_is_repeated_until_the_backend_takes_it(stage: Stage) -> None:
    replica = await stage.replica(SIGNAL)
    bot = (await stage.run_bot(replica)).bot.id
    stage.backend.fail("stop", BackendUnavailable("away"), BackendUnavailable("away"))
    await replica.bot_stopper.stop(bot)
    for _ in range(3):
        await pass_time(stage, replica, 10)
    assert len(stage.backend.stop_modes) >= 3
    assert stage.bot(bot)["status"] == "CANCELLED", "killed by the signal"


async def test_replica_that_dies_after_the_signal_leaves_the_rest_to_another(stage: Stage) -> None:
    first, second = await stage.replica(SIGNAL), await stage.replica(SIGNAL)
    stage.backend.obeys_signals = False
    bot = (await stage.run_bot(first)).bot.id
    await first.bot_stopper.stop(bot)
    with replaced_statements(begin_finishing="SELECT 1 / 0"):
        await stage.step(first)
    assert stage.bot(bot)["finishing_at"] is None
    stage.clock.move(30)
    await stage.settle(second)
    assert stage.bot(bot)["finishing_at"] is not None
    assert set(stage.backend.stop_modes) == {StopMode.ASK}


@pytest.mark.parametrize(("code", "status"), [(0, "DONE"), (3, "FAILED"), (None, "FAILED")])
async def test_exit_code_decides_even_before_the_container_was_observed_running(
    stage: Stage, code: int | None, status: str
) -> None:
    replica = await stage.replica(SIGNAL)
    stage.backend.state_after_start = ContainerState.EXITED
    stage.backend.exit_code = code
    bot = (await stage.run_bot(replica)).bot.id
    ended = stage.bot(bot)
    assert ended["status"] == status
    if status == "FAILED" and code is not None:
        assert "Last output:\noutput of" in ended["failure_reason"]
        assert len(stage.backend.runs) == 1, "a bot that ran is not retried"
