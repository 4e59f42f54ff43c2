"""The recovery pass on a real database: the scenarios of the seed, and its safeguards."""

import asyncio
from dataclasses import replace

import pytest

from botpool.domain.errors import BackendError, BackendUnavailable
from botpool.domain.ids import AssignmentId
from botpool.domain.observation import ContainerState, DeploymentState
from botpool.domain.policy import Policy
from botpool.domain.states import BotStatus
from botpool.engine.maintenance.recovery import RecoveryResult
from botpool.engine.replica import Replica
from tests.engine.recovery_cases import (
    LONG_TIMEOUT,
    pass_time,
    run_bot,
    start_bot,
    write_heartbeat,
)
from tests.support.replicas import Stage, bot_request, pool
from tests.support.statement_log import record_statements


async def test_slow_deployment_with_heartbeats_is_never_reset(stage: Stage) -> None:
    """Scenario 1: heartbeats arrive for 40 minutes while the slot is deploying."""
    replica = await stage.replica(pool(1), policy=LONG_TIMEOUT)
    bot = await start_bot(stage, replica)
    for _ in range(40):
        await pass_time(stage, replica, 60)
        if stage.slots()[0]["status"] == "deploying":
            write_heartbeat(stage, bot)
        else:
            await replica.agents.heartbeat(stage.slot_of(bot)["assignment_id"], bot)
        await replica.recovery.recover()
    assert stage.bot(bot)["failure_code"] is None
    assert stage.slots()[0]["status"] in ("deploying", "busy")


async def test_stuck_deployment_without_heartbeat_is_reset(stage: Stage) -> None:
    """Scenario 2: 15 minutes without a heartbeat or an active deployment."""
    replica = await stage.replica(pool(1), policy=replace(LONG_TIMEOUT, deploy_attempts=1))
    bot = await start_bot(stage, replica)
    stage.backend.finish(stage.slots()[0]["container_id"])
    await pass_time(stage, replica, 890)
    assert await replica.recovery.recover() == RecoveryResult()
    await pass_time(stage, replica, 20)
    assert await replica.recovery.recover() == RecoveryResult(failed=1)
    await stage.settle(replica)
    assert stage.bot(bot)["failure_code"] == "deploy_failed"


async def test_slot_with_live_bot_is_healed_after_three_skips(stage: Stage) -> None:
    """Scenario 3: the bot sends heartbeats, the slot stays deploying."""
    replica = await stage.replica(pool(1), policy=LONG_TIMEOUT)
    bot = await start_bot(stage, replica)
    for skipped in (1, 2, 3):
        await pass_time(stage, replica, 910)
        write_heartbeat(stage, bot)
        assert await replica.recovery.recover() == RecoveryResult(skipped=1)
        assert stage.slots()[0]["skipped_recoveries"] == skipped
        assert stage.slots()[0]["status"] == "deploying"
    await pass_time(stage, replica, 910)
    write_heartbeat(stage, bot)
    assert await replica.recovery.recover() == RecoveryResult(skipped=1)
    slot = stage.slots()[0]
    assert (slot["status"], slot["skipped_recoveries"]) == ("busy", 0)
    (now,) = stage.rows("SELECT botpool_now() AS now")
    assert slot["last_used_at"] == now["now"], "a healed slot counts as used now"
    assert stage.statuses(bot) == ["JOINING_CALL"]


async def test_bot_that_crashed_after_heartbeat_is_not_retried(stage: Stage) -> None:
    """Scenario 4: the bot did run."""
    replica = await stage.replica(pool(1), policy=LONG_TIMEOUT)
    bot = await start_bot(stage, replica)
    write_heartbeat(stage, bot)
    await pass_time(stage, replica, 910)
    assert await replica.recovery.recover() == RecoveryResult(failed=1)
    await stage.settle(replica)
    assert stage.bot(bot)["failure_code"] == "heartbeat_lost"
    assert stage.bot(bot)["attempts"] == 1


async def test_slot_in_error_is_reset_without_a_pass(stage: Stage) -> None:
    """Scenario 5."""
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.state_after_start = ContainerState.ERROR
    await replica.admission.admit(bot_request())
    await stage.settle(replica)
    assert stage.slots()[0]["status"] == "idle"


@pytest.mark.parametrize("phase", ["waiting_for_image", "waiting_for_start"])
async def test_slot_that_waits_at_the_image_gate_is_not_recovered(stage: Stage, phase: str) -> None:
    replica = await stage.replica(
        pool(3), policy=replace(LONG_TIMEOUT, deploy_wait_timeout_s=36_000)
    )
    if phase == "waiting_for_start":
        # The first bot makes the image known.
        await stage.end(replica, (await stage.run_bot(replica)).bot.id)
        await stage.settle(replica)
    stage.backend.concurrent_starts = 1
    for _ in range(3):
        await start_bot(stage, replica)
    before = [(slot["phase"], slot["assignment_id"]) for slot in stage.slots()]
    assert sorted(each for each, _ in before) == ["starting", phase, phase]
    await pass_time(stage, replica, 1200)
    assert await replica.recovery.recover() == RecoveryResult(skipped=1), "the starting slot"
    assert [(slot["phase"], slot["assignment_id"]) for slot in stage.slots()] == before


async def test_bot_in_waiting_room_with_heartbeats_is_not_recovered(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await run_bot(stage, replica)
    assignment = stage.slot_of(bot)["assignment_id"]
    await replica.agents.report(assignment, bot, BotStatus.IN_WAITING_ROOM, None)
    for _ in range(60):
        await pass_time(stage, replica, 10)
        await replica.agents.heartbeat(assignment, bot)
        assert await replica.recovery.recover() == RecoveryResult()
    assert stage.statuses(bot) == ["IN_WAITING_ROOM"]


async def test_bot_of_pool_without_heartbeats_is_not_failed_for_silence(stage: Stage) -> None:
    replica = await stage.replica(replace(pool(1), heartbeats="none"))
    bot = (await stage.run_bot(replica)).bot
    await pass_time(stage, replica, 3600)
    await replica.recovery.recover()
    assert stage.statuses(bot.id) == ["JOINING_CALL"]


@pytest.mark.parametrize("down", ["control plane", "PostgreSQL"])
async def test_outage_of_botpool_fails_no_live_bot(stage: Stage, down: str) -> None:
    """Heartbeats cannot arrive without a replica or without the database."""
    replica = await stage.replica(pool(3))
    bots = [await run_bot(stage, replica) for _ in range(3)]
    await replica.liveness.record()
    stage.clock.move(3600)
    back = await stage.replica(pool(3)) if down == "control plane" else replica
    assert await back.recovery.recover() == RecoveryResult()
    for bot in bots:
        await back.agents.heartbeat(stage.slot_of(bot)["assignment_id"], bot)
    await pass_time(stage, back, 290)
    assert await back.recovery.recover() == RecoveryResult()
    assert set(stage.statuses(*bots)) == {"JOINING_CALL"}


async def test_bot_that_stays_silent_after_an_outage_fails(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await run_bot(stage, replica)
    await replica.liveness.record()
    stage.clock.move(3600)
    await replica.recovery.recover()
    await pass_time(stage, replica, 310)
    await replica.recovery.recover()
    assert stage.bot(bot)["failure_code"] == "heartbeat_lost"


async def test_mass_silence_waits_one_more_window(stage: Stage) -> None:
    replica = await stage.replica(pool(6))
    bots = [await run_bot(stage, replica) for _ in range(6)]
    await pass_time(stage, replica, 310)
    assert await replica.recovery.recover() == RecoveryResult(skipped=6)
    await pass_time(stage, replica, 290)
    assert await replica.recovery.recover() == RecoveryResult(skipped=6)
    await replica.agents.heartbeat(stage.slot_of(bots[0])["assignment_id"], bots[0])
    await pass_time(stage, replica, 20)
    assert await replica.recovery.recover() == RecoveryResult(failed=5)
    assert stage.statuses(bots[0]) == ["JOINING_CALL"]


async def test_unavailable_backend_is_no_evidence(stage: Stage) -> None:
    replica = await stage.replica(pool(1), policy=LONG_TIMEOUT)
    bot = await start_bot(stage, replica)
    stage.backend.finish(stage.slots()[0]["container_id"])
    await pass_time(stage, replica, 1200)
    stage.backend.fail("observe", BackendUnavailable("502"))
    assert await replica.recovery.recover() == RecoveryResult()
    assert stage.statuses(bot) == ["DEPLOYING"]


@pytest.mark.parametrize("change", ["bot ends", "slot is assigned"])
async def test_slot_that_changed_during_the_observation_is_not_recovered(
    stage: Stage, change: str
) -> None:
    replica, other = await stage.replica(pool(1)), await stage.replica(pool(1))
    bot = await run_bot(stage, replica)
    if change == "slot is assigned":
        await stage.end(replica, bot)
        await stage.settle(replica)
        stage.backend.show(stage.slots()[0]["container_id"], ContainerState.RUNNING)
    else:
        await pass_time(stage, replica, 310)
    come, go_on = stage.backend.hold("observe")
    late = asyncio.create_task(replica.recovery.recover())
    await come.wait()
    if change == "slot is assigned":
        await other.admission.admit(bot_request())
    else:
        await stage.end(other, bot)
    go_on.set()
    assert await late == RecoveryResult()


async def test_heartbeat_during_the_observation_prevents_failure(stage: Stage) -> None:
    """A heartbeat does not increase the slot's version, so it is a separate fence."""
    replica, other = await stage.replica(pool(1)), await stage.replica(pool(1))
    bot = await run_bot(stage, replica)
    await pass_time(stage, replica, 310)
    come, go_on = stage.backend.hold("observe")
    late = asyncio.create_task(replica.recovery.recover())
    await come.wait()
    assignment = AssignmentId(stage.slot_of(bot)["assignment_id"])
    orders = await other.agents.heartbeat(assignment, bot)
    go_on.set()
    assert await late == RecoveryResult()
    assert not orders.should_exit
    assert stage.statuses(bot) == ["JOINING_CALL"]


async def test_concurrent_heartbeats_share_statements(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica = await stage.replica(pool(3))
    bots = [await run_bot(stage, replica) for _ in range(3)]
    statements = record_statements(monkeypatch)
    assignments = [stage.slot_of(bot)["assignment_id"] for bot in bots]
    beats = [replica.agents.heartbeat(assignments[n % 3], bots[n % 3]) for n in range(300)]
    orders = await asyncio.gather(*beats)
    assert not any(each.should_exit or each.should_leave for each in orders)
    assert statements.single.count("record_heartbeats") <= 3


async def test_recovery_pass_makes_one_list_call(stage: Stage) -> None:
    replica = await stage.replica(pool(5), policy=LONG_TIMEOUT)
    for _ in range(5):
        await start_bot(stage, replica)
        stage.backend.finish(stage.slots()[-1]["container_id"], DeploymentState.FINISHED)
    await pass_time(stage, replica, 910)
    observations = len(stage.backend.calls_of("observe"))
    await replica.recovery.recover()
    assert len(stage.backend.calls_of("observe")) == observations + 1


# Scenario 5: slots in error are reset by the pass too, and its result counts them.


async def fail_reset(stage: Stage, replica: Replica, *errors: BackendError) -> None:
    """Bring the only slot into `error`; its first reset fails with the errors."""
    stage.backend.fail("ensure", *errors)
    await replica.slot_commands.recover(stage.slots()[0]["id"], reason="by a test")
    await stage.step(replica)
    assert stage.slots()[0]["status"] == "error"


async def test_pass_counts_error_slot_that_it_resets(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await run_bot(stage, replica)
    await stage.end(replica, bot)
    await stage.settle(replica)
    await fail_reset(stage, replica, BackendUnavailable("no answer"))
    assert await replica.recovery.recover() == RecoveryResult(recovered=1)
    assert stage.slots()[0]["status"] == "idle", "the pass did not wait for the backoff"
    assert await replica.recovery.recover() == RecoveryResult()


async def test_pass_counts_error_slot_that_it_cannot_reset(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await run_bot(stage, replica)
    await stage.end(replica, bot)
    await stage.settle(replica)
    await fail_reset(stage, replica, *[BackendUnavailable("no answer") for _ in range(2)])
    assert await replica.recovery.recover() == RecoveryResult(failed=1)
    assert stage.slots()[0]["status"] == "error"


async def test_error_slot_that_another_replica_resets_is_not_counted(stage: Stage) -> None:
    replica, other = await stage.replica(pool(1)), await stage.replica(pool(1))
    bot = await run_bot(stage, replica)
    await stage.end(replica, bot)
    await stage.settle(replica)
    await replica.slot_commands.recover(stage.slots()[0]["id"], reason="by a test")
    arrived, proceed = stage.backend.hold("ensure")
    await other.reconciler.run_due_steps()
    await arrived.wait()
    assert await replica.recovery.recover() == RecoveryResult()
    proceed.set()
    await stage.settle(other)
    assert stage.slots()[0]["status"] == "idle"
