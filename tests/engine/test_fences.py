"""What comes late, or twice, changes nothing."""

import asyncio

import pytest

from botpool.domain.errors import NotFound
from botpool.domain.ids import AssignmentId
from botpool.domain.observation import ContainerState
from botpool.domain.states import BotStatus
from tests.support.replicas import Stage, pool, wish


async def handed_over(stage: Stage) -> tuple[int, int, AssignmentId]:
    """A slot that went from one bot to the next: former bot, present bot, former assignment."""
    replica = await stage.replica(pool(1))
    former = await stage.run_bot(replica)
    assignment = AssignmentId(stage.slot_of(former.bot.id)["assignment_id"])
    present = (await replica.admission.admit(wish())).bot.id
    await stage.end(replica, former.bot.id)
    await stage.settle(replica)
    assert stage.statuses(former.bot.id, present) == ["DONE", "JOINING_CALL"]
    return former.bot.id, present, assignment


@pytest.mark.parametrize("late", ["look", "answer"])
async def test_a_release_that_comes_twice(stage: Stage, late: str) -> None:
    """Two workers make one release; the slower one finds the next tenant in the slot.

    Held before its look, it sees the next tenant's container; held after, it has seen its own
    stopped and is about to free the slot.
    """
    replica = await stage.replica(pool(1))
    slow = await stage.replica(pool(1))
    former = await stage.run_bot(replica)
    await stage.end(replica, former.bot.id)
    hold = stage.backend.hold if late == "look" else stage.backend.hold_answer
    come, go_on = hold("look")
    releasing = asyncio.create_task(stage.step(slow))
    await come.wait()
    # The slow worker's lease has run out; another makes the step, and the slot is given on.
    stage.clock.move(21)
    present = (await replica.admission.admit(wish())).bot.id
    await stage.settle(replica)
    assert stage.statuses(present) == ["JOINING_CALL"]
    # As far as the slot's status goes, the second release would fit.
    await stage.end(replica, present)
    before = stage.slots()
    go_on.set()
    await releasing
    assert stage.slots() == before


async def test_a_status_report_of_the_previous_tenant(stage: Stage) -> None:
    former, present, assignment = await handed_over(stage)
    replica = stage.replicas[0]
    before = (stage.slots(), stage.bot(former), stage.bot(present))
    for status in (BotStatus.IN_CALL, BotStatus.FAILED, BotStatus.DONE):
        assert not await replica.agents.report(assignment, former, status, "late")
    orders = await replica.agents.heartbeat(assignment, former)
    assert orders.should_exit
    assert await replica.agents.record(assignment, former, [("late", {})]) == 0
    assert (stage.slots(), stage.bot(former), stage.bot(present)) == before


async def test_the_previous_tenant_sees_its_own_bot_released(stage: Stage) -> None:
    former, _, assignment = await handed_over(stage)
    container = stage.slots()[0]["container_id"]
    view, released = await stage.replicas[0].agents.identify(assignment, container)
    assert (view.bot.id, released) == (former, True)


@pytest.mark.parametrize("late", ["start", "answer"])
async def test_a_deployment_that_ends_after_its_slot_went_to_another_bot(
    stage: Stage, late: str
) -> None:
    """The start of a cancelled bot comes, or returns, late: the next bot's slot is untouched."""
    replica = await stage.replica(pool(1))
    slow = await stage.replica(pool(1))
    cancelled = (await slow.admission.admit(wish())).bot.id
    hold = stage.backend.hold if late == "start" else stage.backend.hold_answer
    come, go_on = hold("start")
    deploying = asyncio.create_task(stage.step(slow))
    await come.wait()
    await replica.bot_stopper.stop(cancelled)
    stage.clock.move(21)
    stage.backend.state_after_start = ContainerState.STARTING
    present = (await replica.admission.admit(wish())).bot.id
    await stage.settle(replica)
    assert stage.statuses(cancelled, present) == ["CANCELLED", "DEPLOYING"]
    before = stage.slots()
    runs = stage.backend.runs
    go_on.set()
    await deploying
    assert stage.slots() == before
    assert stage.backend.runs == runs
    assert stage.statuses(cancelled, present) == ["CANCELLED", "DEPLOYING"]


async def test_the_stop_waits_for_a_start_under_way(stage: Stage) -> None:
    """While a worker's call is out, nobody else calls about that slot: its lease is respected."""
    replica = await stage.replica(pool(1))
    other = await stage.replica(pool(1))
    bot = (await replica.admission.admit(wish())).bot.id
    come, go_on = stage.backend.hold("start")
    starting = asyncio.create_task(stage.step(replica))
    await come.wait()
    await other.bot_stopper.stop(bot)
    assert await stage.step(other) == 0
    assert stage.backend.made("stop") == []
    go_on.set()
    await starting
    await stage.settle(other)
    assert stage.backend.running == []
    assert stage.slots()[0]["status"] == "idle"


async def test_an_observation_from_before_the_present_phase_does_not_count(stage: Stage) -> None:
    """A look that began while the former bot ran says nothing about the present one."""
    replica = await stage.replica(pool(1))
    looking = await stage.replica(pool(1))
    former = await stage.run_bot(replica)
    present = (await replica.admission.admit(wish())).bot.id
    stage.backend.show(stage.slots()[0]["container_id"], ContainerState.EXITED)
    come, go_on = stage.backend.hold("look")
    late = asyncio.create_task(looking.observer.observe("process"))
    await come.wait()
    await stage.end(replica, former.bot.id)
    await stage.settle(replica)
    stage.backend.show(stage.slots()[0]["container_id"], ContainerState.EXITED)
    before = stage.slots()
    go_on.set()
    await late
    assert stage.slots() == before
    assert stage.statuses(present) == ["JOINING_CALL"]


async def test_a_final_status_never_changes(stage: Stage) -> None:
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


async def test_a_token_opens_its_own_bot_only(stage: Stage) -> None:
    replica = await stage.replica(pool(2))
    mine = await stage.run_bot(replica)
    other = await stage.run_bot(replica)
    assignment = AssignmentId(stage.slot_of(mine.bot.id)["assignment_id"])
    with pytest.raises(NotFound):
        await replica.agents.heartbeat(assignment, other.bot.id)
    with pytest.raises(NotFound):
        await replica.agents.report(assignment, other.bot.id, BotStatus.FAILED, None)
