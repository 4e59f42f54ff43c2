"""Stops by users at every stage, and time limits by the database's clock."""

import asyncio

import pytest

from botpool.domain.ids import AssignmentId
from botpool.domain.observation import ContainerState
from botpool.domain.policy import Policy
from botpool.domain.states import BotStatus
from tests.support.replicas import Stage, bot_request, pool


async def test_stop_cancels_a_queued_bot(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    first = await stage.run_bot(replica)
    assignment = stage.slot_of(first.bot.id)["assignment_id"]
    waiting = (await replica.admission.admit(bot_request())).bot.id
    stopped, changed = await replica.bot_stopper.stop(waiting)
    assert (stopped.bot.status, changed) == (BotStatus.CANCELLED, True)
    assert stage.rows("SELECT bot_id FROM bot_pool_queue") == []
    await stage.end(replica, first.bot.id)
    await stage.settle(replica)
    assert stage.backend.runs == [assignment], "the cancelled bot was deployed"


@pytest.mark.parametrize("steps", [0, 1])
async def test_stop_cancels_a_deploying_bot(stage: Stage, steps: int) -> None:
    replica = await stage.replica(pool(1))
    stage.backend.state_after_start = ContainerState.STARTING
    bot = (await replica.admission.admit(bot_request())).bot.id
    for _ in range(steps):
        await stage.step(replica)
    stopped, _ = await replica.bot_stopper.stop(bot)
    assert stopped.bot.status is BotStatus.CANCELLED
    await stage.settle(replica)
    assert stage.slots()[0]["status"] == "idle"
    assert stage.backend.running == []


async def test_stop_prevents_the_retry_of_a_failed_deployment(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    stage.backend.state_after_start = ContainerState.ERROR
    bot = (await replica.admission.admit(bot_request())).bot.id
    await stage.step(replica)
    await replica.observer.observe("process")
    stopped, changed = await replica.bot_stopper.stop(bot)
    assert (stopped.bot.status, changed) == (BotStatus.CANCELLED, True)
    await stage.settle(replica)
    assert len(stage.backend.runs) == 1, "the cancelled bot was deployed again"


async def test_running_bot_leaves_when_asked_and_reports_its_end(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot.id
    assignment = AssignmentId(stage.slots()[0]["assignment_id"])
    assert not (await replica.agents.heartbeat(assignment, bot)).should_leave
    stopped, changed = await replica.bot_stopper.stop(bot)
    assert (stopped.bot.status, changed) == (BotStatus.LEAVING, True)
    orders = await replica.agents.heartbeat(assignment, bot)
    assert (orders.should_leave, orders.should_exit) == (True, False)
    assert await replica.agents.report(assignment, bot, BotStatus.CALL_ENDED, None)
    assert await replica.agents.report(assignment, bot, BotStatus.DONE, None)
    await stage.settle(replica)
    assert stage.statuses(bot) == ["DONE"]


async def test_bot_that_does_not_leave_is_stopped_after_the_grace(stage: Stage) -> None:
    """The deadline is in the database, so it survives a restart."""
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot.id
    await replica.bot_stopper.stop(bot)
    restarted = await stage.replica(pool(1))
    stage.clock.move(29)
    await stage.settle(restarted)
    assert stage.statuses(bot) == ["LEAVING"]
    stage.clock.move(2)
    await stage.settle(restarted)
    assert stage.statuses(bot) == ["CANCELLED"]
    assert stage.backend.running == []


async def test_second_request_to_leave_keeps_the_first_deadline(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot.id
    await replica.bot_stopper.stop(bot)
    stage.clock.move(20)
    _, changed = await replica.bot_stopper.stop(bot)
    assert changed
    stage.clock.move(11)
    await stage.settle(replica)
    assert stage.statuses(bot) == ["CANCELLED"]


async def test_stop_during_a_hand_over_ends_the_bot(stage: Stage) -> None:
    """The user stops the bot while the matcher assigns it to a slot."""
    replicas = [await stage.replica(pool(1)) for _ in range(2)]
    for _ in range(20):
        first = await stage.run_bot(replicas[0])
        waiting = (await replicas[0].admission.admit(bot_request())).bot.id
        await stage.end(replicas[0], first.bot.id)
        await asyncio.gather(stage.step(replicas[0]), replicas[1].bot_stopper.stop(waiting))
        await stage.settle(replicas[0])
        assert stage.statuses(waiting) == ["CANCELLED"]
        assert stage.slots()[0]["status"] == "idle"


async def test_bot_ends_after_the_maximum_duration(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot.id
    stage.clock.move(21_599)
    await stage.settle(replica)
    assert stage.statuses(bot) == ["JOINING_CALL"]
    stage.clock.move(2)
    await stage.settle(replica)
    assert stage.bot(bot)["failure_code"] == "max_duration"
    assert stage.slots()[0]["status"] == "idle"


async def test_maximum_duration_of_zero_is_off(stage: Stage) -> None:
    replica = await stage.replica(pool(1), policy=Policy(max_duration_s=0))
    bot = (await stage.run_bot(replica)).bot.id
    stage.clock.move(100 * 86_400)
    await stage.settle(replica)
    assert stage.statuses(bot) == ["JOINING_CALL"]


async def test_shutdown_starts_no_queued_bot(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    running = (await stage.run_bot(replica)).bot.id
    waiting = (await replica.admission.admit(bot_request())).bot.id
    ending = asyncio.create_task(replica.shutdown.end_all(reason="test"))
    while not ending.done():
        await stage.step(replica)
        await asyncio.sleep(0.01)
    assert stage.statuses(running, waiting) == ["CANCELLED", "CANCELLED"]
    assert stage.backend.running == []
