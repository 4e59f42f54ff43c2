"""The recovery pass on a real database: the seed's scenarios, and what it must never do."""

import asyncio
from dataclasses import replace

import pytest

from botpool.domain.errors import BackendUnavailable
from botpool.domain.ids import AssignmentId
from botpool.domain.observation import ContainerState, DeploymentState
from botpool.domain.policy import Policy
from botpool.domain.states import BotStatus
from botpool.engine.maintenance.recovery import RecoveryResult
from tests.engine.patients import LONG, alive, beat, busy, deployed
from tests.support.replicas import Stage, pool, wish


async def test_slow_but_healthy_deployment(stage: Stage) -> None:
    """Scenario 1: heartbeats for 40 minutes while the slot says deploying; never killed."""
    replica = await stage.replica(pool(1), policy=LONG)
    bot = await deployed(stage, replica)
    for _ in range(40):
        await alive(stage, replica, 60)
        if stage.slots()[0]["status"] == "deploying":
            beat(stage, bot)
        else:
            await replica.agents.heartbeat(stage.slot_of(bot)["assignment_id"], bot)
        await replica.recovery.recover()
    assert stage.bot(bot)["failure_code"] is None
    assert stage.slots()[0]["status"] in ("deploying", "busy")


async def test_stuck_deployment_no_heartbeat(stage: Stage) -> None:
    """Scenario 2: 15 minutes without a sign, and no deployment under way."""
    replica = await stage.replica(pool(1), policy=replace(LONG, deploy_attempts=1))
    bot = await deployed(stage, replica)
    stage.backend.finish(stage.slots()[0]["container_id"])
    await alive(stage, replica, 890)
    assert await replica.recovery.recover() == RecoveryResult()
    await alive(stage, replica, 20)
    assert await replica.recovery.recover() == RecoveryResult(recovered=1)
    await stage.settle(replica)
    assert stage.bot(bot)["failure_code"] == "deploy_failed"


async def test_bot_alive_but_slot_stuck(stage: Stage) -> None:
    """Scenario 3: heartbeats, three skips, then the slot is healed."""
    replica = await stage.replica(pool(1), policy=LONG)
    bot = await deployed(stage, replica)
    for skipped in (1, 2, 3):
        await alive(stage, replica, 910)
        beat(stage, bot)
        assert await replica.recovery.recover() == RecoveryResult(skipped=1)
        assert stage.slots()[0]["skipped_recoveries"] == skipped
        assert stage.slots()[0]["status"] == "deploying"
    await alive(stage, replica, 910)
    beat(stage, bot)
    assert await replica.recovery.recover() == RecoveryResult(skipped=1)
    slot = stage.slots()[0]
    assert (slot["status"], slot["skipped_recoveries"]) == ("busy", 0)
    assert stage.statuses(bot) == ["JOINING_CALL"]


async def test_bot_crashed_after_heartbeat(stage: Stage) -> None:
    """Scenario 4: it did run, so it is not tried again."""
    replica = await stage.replica(pool(1), policy=LONG)
    bot = await deployed(stage, replica)
    beat(stage, bot)
    await alive(stage, replica, 910)
    assert await replica.recovery.recover() == RecoveryResult(failed=1)
    await stage.settle(replica)
    assert stage.bot(bot)["failure_code"] == "heartbeat_lost"
    assert stage.bot(bot)["attempts"] == 1


async def test_error_status_slots(stage: Stage) -> None:
    """Scenario 5: a slot in error is reset at once, without waiting for a pass."""
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.state_after_start = ContainerState.ERROR
    await replica.admission.admit(wish())
    await stage.settle(replica)
    assert stage.slots()[0]["status"] == "idle"


@pytest.mark.parametrize("phase", ["waiting_for_image", "waiting_for_start"])
async def test_whoever_waits_for_an_image_or_a_place_is_not_recovered(
    stage: Stage, phase: str
) -> None:
    replica = await stage.replica(pool(3), policy=replace(LONG, deploy_wait_timeout_s=36_000))
    if phase == "waiting_for_start":
        # Its image is known by then.
        await stage.end(replica, (await stage.run_bot(replica)).bot.id)
        await stage.settle(replica)
    stage.backend.concurrent_starts = 1
    for _ in range(3):
        await deployed(stage, replica)
    before = [(slot["phase"], slot["assignment_id"]) for slot in stage.slots()]
    assert sorted(each for each, _ in before) == ["starting", phase, phase]
    await alive(stage, replica, 1200)
    assert await replica.recovery.recover() == RecoveryResult(skipped=1), "the one that starts"
    assert [(slot["phase"], slot["assignment_id"]) for slot in stage.slots()] == before


async def test_a_lobby_of_ten_minutes_is_not_a_hang(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await busy(stage, replica)
    assignment = stage.slot_of(bot)["assignment_id"]
    await replica.agents.report(assignment, bot, BotStatus.IN_WAITING_ROOM, None)
    for _ in range(60):
        await alive(stage, replica, 10)
        await replica.agents.heartbeat(assignment, bot)
        assert await replica.recovery.recover() == RecoveryResult()
    assert stage.statuses(bot) == ["IN_WAITING_ROOM"]


async def test_a_pool_that_needs_no_heartbeats_gets_none(stage: Stage) -> None:
    replica = await stage.replica(replace(pool(1), heartbeats="none"))
    bot = (await stage.run_bot(replica)).bot
    await alive(stage, replica, 3600)
    await replica.recovery.recover()
    assert stage.statuses(bot.id) == ["JOINING_CALL"]


@pytest.mark.parametrize("what", ["control plane", "PostgreSQL"])
async def test_what_was_down_for_an_hour_fails_no_live_bot(stage: Stage, what: str) -> None:
    """Heartbeats cannot arrive: no replica runs, or the database is away."""
    replica = await stage.replica(pool(3))
    bots = [await busy(stage, replica) for _ in range(3)]
    await replica.recovery.record_liveness()
    stage.clock.move(3600)
    back = await stage.replica(pool(3)) if what == "control plane" else replica
    assert await back.recovery.recover() == RecoveryResult()
    for bot in bots:
        await back.agents.heartbeat(stage.slot_of(bot)["assignment_id"], bot)
    await alive(stage, back, 290)
    assert await back.recovery.recover() == RecoveryResult()
    assert set(stage.statuses(*bots)) == {"JOINING_CALL"}


async def test_whoever_stays_silent_after_our_outage_fails_all_the_same(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await busy(stage, replica)
    await replica.recovery.record_liveness()
    stage.clock.move(3600)
    await replica.recovery.recover()
    await alive(stage, replica, 310)
    await replica.recovery.recover()
    assert stage.bot(bot)["failure_code"] == "heartbeat_lost"


async def test_when_a_crowd_falls_silent_one_more_window_is_waited(stage: Stage) -> None:
    replica = await stage.replica(pool(6))
    bots = [await busy(stage, replica) for _ in range(6)]
    await alive(stage, replica, 310)
    assert await replica.recovery.recover() == RecoveryResult(skipped=6)
    await alive(stage, replica, 290)
    assert await replica.recovery.recover() == RecoveryResult(skipped=6)
    await replica.agents.heartbeat(stage.slot_of(bots[0])["assignment_id"], bots[0])
    await alive(stage, replica, 20)
    assert await replica.recovery.recover() == RecoveryResult(failed=5)
    assert stage.statuses(bots[0]) == ["JOINING_CALL"]


async def test_a_platform_that_does_not_answer_is_no_evidence(stage: Stage) -> None:
    replica = await stage.replica(pool(1), policy=LONG)
    bot = await deployed(stage, replica)
    stage.backend.finish(stage.slots()[0]["container_id"])
    await alive(stage, replica, 1200)
    stage.backend.fail("look", BackendUnavailable("502"))
    assert await replica.recovery.recover() == RecoveryResult()
    assert stage.statuses(bot) == ["DEPLOYING"]


@pytest.mark.parametrize("act", ["bot ends", "slot is taken"])
async def test_what_moved_meanwhile_is_left_alone(stage: Stage, act: str) -> None:
    replica, other = await stage.replica(pool(1)), await stage.replica(pool(1))
    bot = await busy(stage, replica)
    if act == "slot is taken":
        await stage.end(replica, bot)
        await stage.settle(replica)
        stage.backend.show(stage.slots()[0]["container_id"], ContainerState.RUNNING)
    else:
        await alive(stage, replica, 310)
    come, go_on = stage.backend.hold("look")
    late = asyncio.create_task(replica.recovery.recover())
    await come.wait()
    if act == "slot is taken":
        await other.admission.admit(wish())
    else:
        await stage.end(other, bot)
    go_on.set()
    assert await late == RecoveryResult()


async def test_who_is_heard_while_the_platform_is_asked_is_not_silent(stage: Stage) -> None:
    """A heartbeat raises no version: it is a fence of its own."""
    replica, other = await stage.replica(pool(1)), await stage.replica(pool(1))
    bot = await busy(stage, replica)
    await alive(stage, replica, 310)
    come, go_on = stage.backend.hold("look")
    late = asyncio.create_task(replica.recovery.recover())
    await come.wait()
    assignment = AssignmentId(stage.slot_of(bot)["assignment_id"])
    orders = await other.agents.heartbeat(assignment, bot)
    go_on.set()
    assert await late == RecoveryResult()
    assert not orders.should_exit
    assert stage.statuses(bot) == ["JOINING_CALL"]


async def test_many_heartbeats_are_one_statement(stage: Stage) -> None:
    replica = await stage.replica(pool(3))
    bots = [await busy(stage, replica) for _ in range(3)]
    asked: list[str] = []
    fetch = replica.database.fetch

    async def counting(name: str, parameters: object) -> object:
        asked.append(name)
        return await fetch(name, parameters)  # type: ignore[arg-type]

    replica.database.fetch = counting  # type: ignore[method-assign, assignment]
    assignments = [stage.slot_of(bot)["assignment_id"] for bot in bots]
    beats = [replica.agents.heartbeat(assignments[n % 3], bots[n % 3]) for n in range(300)]
    orders = await asyncio.gather(*beats)
    assert not any(each.should_exit or each.should_leave for each in orders)
    assert asked.count("record_heartbeats") <= 3


async def test_a_deployment_state_is_asked_for_by_nobody_else(stage: Stage) -> None:
    """A pass costs one list call, whatever it finds."""
    replica = await stage.replica(pool(5), policy=LONG)
    for _ in range(5):
        await deployed(stage, replica)
        stage.backend.finish(stage.slots()[-1]["container_id"], DeploymentState.FINISHED)
    await alive(stage, replica, 910)
    looks = len(stage.backend.made("look"))
    await replica.recovery.recover()
    assert len(stage.backend.made("look")) == looks + 1
