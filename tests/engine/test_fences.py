"""Late and repeated writes change nothing."""

import asyncio

import pytest

from botpool.domain.errors import NotFound
from botpool.domain.ids import AssignmentId
from botpool.domain.observation import ContainerState
from botpool.domain.states import BotStatus
from tests.support.replicas import Stage, bot_request, pool


async def handed_over(stage: Stage) -> tuple[int, int, AssignmentId]:
    """Hand a slot over; returns the former bot, the current bot and the former assignment."""
    replica = await stage.replica(pool(1))
    former = await stage.run_bot(replica)
    assignment = AssignmentId(stage.slot_of(former.bot.id)["assignment_id"])
    current = (await replica.admission.admit(bot_request())).bot.id
    await stage.end(replica, former.bot.id)
    await stage.settle(replica)
    assert stage.statuses(former.bot.id, current) == ["DONE", "JOINING_CALL"]
    return former.bot.id, current, assignment


@pytest.mark.parametrize("late", ["observe", "answer"])
async def test_second_release_does_not_touch_the_next_bot(stage: Stage, late: str) -> None:
    """Two workers release one slot; the slower one finds the next bot in it.

    Held before its observation, the slower worker observes the next bot's container. Held after
    it, the worker has observed the stop and is about to free the slot.
    """
    replica = await stage.replica(pool(1))
    slow = await stage.replica(pool(1))
    former = await stage.run_bot(replica)
    await stage.end(replica, former.bot.id)
    hold = stage.backend.hold if late == "observe" else stage.backend.hold_answer
    come, go_on = hold("observe")
    releasing = asyncio.create_task(stage.step(slow))
    await come.wait()
    # The slow worker's lease has expired; another worker takes the step and hands the slot over.
    stage.clock.move(21)
    current = (await replica.admission.admit(bot_request())).bot.id
    await stage.settle(replica)
    assert stage.statuses(current) == ["JOINING_CALL"]
    # The slot is releasing again, so its status alone would allow the second release.
    await stage.end(replica, current)
    before = stage.slots()
    go_on.set()
    await releasing
    assert stage.slots() == before


async def test_report_of_the_previous_bot_changes_nothing(stage: Stage) -> None:
    former, current, assignment = await handed_over(stage)
    replica = stage.replicas[0]
    before = (stage.slots(), stage.bot(former), stage.bot(current))
    for status in (BotStatus.IN_CALL, BotStatus.FAILED, BotStatus.DONE):
        assert not await replica.agents.report(assignment, former, status, "late")
    instructions = await replica.agents.heartbeat(assignment, former)
    assert instructions.should_exit
    assert await replica.agents.record(assignment, former, [("late", {})]) == 0
    assert (stage.slots(), stage.bot(former), stage.bot(current)) == before


async def test_previous_agent_reads_its_own_released_bot(stage: Stage) -> None:
    former, _, assignment = await handed_over(stage)
    container = stage.slots()[0]["container_id"]
    view, released = await stage.replicas[0].agents.identify(assignment, container)
    assert (view.bot.id, released) == (former, True)


@pytest.mark.parametrize("late", ["start", "answer"])
async def test_late_deployment_does_not_touch_the_next_bot(stage: Stage, late: str) -> None:
    """The start of a cancelled bot arrives or returns late."""
    replica = await stage.replica(pool(1))
    slow = await stage.replica(pool(1))
    cancelled = (await slow.admission.admit(bot_request())).bot.id
    hold = stage.backend.hold if late == "start" else stage.backend.hold_answer
    come, go_on = hold("start")
    deploying = asyncio.create_task(stage.step(slow))
    await come.wait()
    await replica.bot_stopper.stop(cancelled)
    stage.clock.move(21)
    stage.backend.state_after_start = ContainerState.STARTING
    current = (await replica.admission.admit(bot_request())).bot.id
    await stage.settle(replica)
    assert stage.statuses(cancelled, current) == ["CANCELLED", "DEPLOYING"]
    before = stage.slots()
    runs = stage.backend.runs
    go_on.set()
    await deploying
    assert stage.slots() == before
    assert stage.backend.runs == runs
    assert stage.statuses(cancelled, current) == ["CANCELLED", "DEPLOYING"]


async def test_stop_waits_for_a_start_in_progress(stage: Stage) -> None:
    """No other worker calls the backend about a slot that is leased."""
    replica = await stage.replica(pool(1))
    other = await stage.replica(pool(1))
    bot = (await replica.admission.admit(bot_request())).bot.id
    come, go_on = stage.backend.hold("start")
    starting = asyncio.create_task(stage.step(replica))
    await come.wait()
    await other.bot_stopper.stop(bot)
    assert await stage.step(other) == 0
    assert stage.backend.calls_of("stop") == []
    go_on.set()
    await starting
    await stage.settle(other)
    assert stage.backend.running == []
    assert stage.slots()[0]["status"] == "idle"


async def test_observation_from_before_the_current_phase_is_ignored(stage: Stage) -> None:
    """An observation that began while the former bot ran does not apply to the current one."""
    replica = await stage.replica(pool(1))
    observing = await stage.replica(pool(1))
    former = await stage.run_bot(replica)
    current = (await replica.admission.admit(bot_request())).bot.id
    stage.backend.show(stage.slots()[0]["container_id"], ContainerState.EXITED)
    come, go_on = stage.backend.hold("observe")
    late = asyncio.create_task(observing.observer.observe("process"))
    await come.wait()
    await stage.end(replica, former.bot.id)
    await stage.settle(replica)
    stage.backend.show(stage.slots()[0]["container_id"], ContainerState.EXITED)
    before = stage.slots()
    go_on.set()
    await late
    assert stage.slots() == before
    assert stage.statuses(current) == ["JOINING_CALL"]


async def test_final_status_never_changes(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await stage.run_bot(replica)
    assignment = AssignmentId(stage.slot_of(bot.bot.id)["assignment_id"])
    await replica.agents.report(assignment, bot.bot.id, BotStatus.FAILED, "rejected by the host")
    for status in BotStatus:
        if status not in (BotStatus.PENDING, BotStatus.QUEUED, BotStatus.CANCELLED):
            await replica.agents.report(assignment, bot.bot.id, status, "late")
    stopped, changed = await replica.bot_stopper.stop(bot.bot.id)
    assert not changed
    assert (stopped.bot.status, stopped.bot.failure_reason) == (
        BotStatus.FAILED,
        "rejected by the host",
    )


async def test_token_gives_access_to_its_own_bot_only(stage: Stage) -> None:
    replica = await stage.replica(pool(2))
    mine = await stage.run_bot(replica)
    other = await stage.run_bot(replica)
    assignment = AssignmentId(stage.slot_of(mine.bot.id)["assignment_id"])
    with pytest.raises(NotFound):
        await replica.agents.heartbeat(assignment, other.bot.id)
    with pytest.raises(NotFound):
        await replica.agents.report(assignment, other.bot.id, BotStatus.FAILED, None)
