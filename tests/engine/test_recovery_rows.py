"""Each row of the recovery table, with a test named after it."""

from dataclasses import replace

import pytest

from botpool.domain.ids import AssignmentId
from botpool.domain.observation import ContainerState
from botpool.domain.policy import Policy
from botpool.domain.states import BotStatus
from botpool.engine.maintenance.cleanup import CleanupResult
from botpool.engine.maintenance.recovery import RecoveryResult
from tests.engine.recovery_cases import (
    LONG_TIMEOUT,
    pass_time,
    run_bot,
    start_bot,
    write_heartbeat,
)
from tests.support.replicas import Stage, bot_request, pool


@pytest.mark.parametrize(
    ("attempts", "ends", "result"),
    [(2, "QUEUED", RecoveryResult(requeued=1)), (1, "FAILED", RecoveryResult(failed=1))],
)
async def test_starting_over_15_min_without_heartbeat_or_active_deployment_is_reset(
    stage: Stage, attempts: int, ends: str, result: RecoveryResult
) -> None:
    """The bot is requeued while attempts remain, else FAILED `deploy_failed`."""
    replica = await stage.replica(pool(1), policy=replace(LONG_TIMEOUT, deploy_attempts=attempts))
    bot = await start_bot(stage, replica)
    stage.backend.finish(stage.slots()[0]["container_id"])
    await pass_time(stage, replica, 890)
    assert await replica.recovery.recover() == RecoveryResult()
    await pass_time(stage, replica, 20)
    assert await replica.recovery.recover() == result
    await stage.settle(replica)
    went = stage.rows("SELECT to_state FROM history WHERE bot_id = %s AND kind = 'bot.status'", bot)
    assert ends in [row["to_state"] for row in went]
    assert stage.bot(bot)["failure_code"] == ("deploy_failed" if ends == "FAILED" else None)
    assert stage.bot(bot)["attempts"] == attempts


async def test_deploying_over_15_min_with_stale_heartbeat_fails_bot(
    stage: Stage,
) -> None:
    """The bot did run, so it is not retried."""
    replica = await stage.replica(pool(1), policy=LONG_TIMEOUT)
    bot = await start_bot(stage, replica)
    await pass_time(stage, replica, 600)
    write_heartbeat(stage, bot)
    await pass_time(stage, replica, 310)
    assert await replica.recovery.recover() == RecoveryResult(failed=1)
    await stage.settle(replica)
    row = stage.bot(bot)
    assert (row["failure_code"], row["attempts"]) == ("heartbeat_lost", 1)
    assert stage.slots()[0]["status"] == "idle"


@pytest.mark.parametrize("skipped", [0, 1, 2])
async def test_deploying_over_15_min_with_fresh_heartbeat_is_skipped(
    stage: Stage, skipped: int
) -> None:
    """The skip restarts the 15 minutes and is counted."""
    replica = await stage.replica(pool(1), policy=LONG_TIMEOUT)
    bot = await start_bot(stage, replica)
    for _ in range(skipped + 1):
        await pass_time(stage, replica, 910)
        write_heartbeat(stage, bot)
        assert await replica.recovery.recover() == RecoveryResult(skipped=1)
    slot = stage.slots()[0]
    assert (slot["status"], slot["skipped_recoveries"]) == ("deploying", skipped + 1)
    await pass_time(stage, replica, 890)
    write_heartbeat(stage, bot)
    assert await replica.recovery.recover() == RecoveryResult(), "the 15 minutes started again"


async def test_deploying_over_15_min_is_healed_after_3_skips(
    stage: Stage,
) -> None:
    """The slot becomes busy with 0 skips; the pass counts it as skipped."""
    replica = await stage.replica(pool(1), policy=LONG_TIMEOUT)
    bot = await start_bot(stage, replica)
    stage.rows("UPDATE bot_pool_slots SET skipped_recoveries = 3, version = version + 1")
    await pass_time(stage, replica, 910)
    write_heartbeat(stage, bot)
    assert await replica.recovery.recover() == RecoveryResult(skipped=1)
    slot = stage.slots()[0]
    assert (slot["status"], slot["skipped_recoveries"]) == ("busy", 0)
    assert stage.statuses(bot) == ["JOINING_CALL"]


async def test_deploying_over_15_min_with_active_deployment_is_skipped(stage: Stage) -> None:
    """The skip is not counted; after 25 minutes the start times out."""
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    bot = await start_bot(stage, replica)
    await pass_time(stage, replica, 1490)
    assert await replica.recovery.recover() == RecoveryResult(skipped=1)
    assert stage.slots()[0]["skipped_recoveries"] == 0
    await pass_time(stage, replica, 20)
    await stage.settle(replica)
    assert stage.bot(bot)["failure_code"] == "deploy_failed"


@pytest.mark.parametrize(
    ("reported", "ends"), [(None, ("FAILED", "container_exited")), ("CALL_ENDED", ("DONE", None))]
)
async def test_busy_with_exited_container_ends_bot(
    stage: Stage, reported: str | None, ends: tuple[str, str | None]
) -> None:
    """FAILED `container_exited`, or DONE after CALL_ENDED; also if heartbeats are missing too."""
    replica = await stage.replica(pool(1))
    bot = await run_bot(stage, replica)
    if reported:
        assignment = AssignmentId(stage.slot_of(bot)["assignment_id"])
        await replica.agents.report(assignment, bot, BotStatus(reported), None)
    await pass_time(stage, replica, 310)
    stage.backend.show(stage.slots()[0]["container_id"], ContainerState.EXITED)
    assert await replica.recovery.recover() == RecoveryResult(failed=1)
    assert (stage.bot(bot)["status"], stage.bot(bot)["failure_code"]) == ends
    await stage.settle(replica)
    assert stage.slots()[0]["status"] == "idle"


async def test_busy_without_heartbeat_for_5_min_fails_bot(stage: Stage) -> None:
    """The pass observes first; exactly 5 minutes is fresh."""
    replica = await stage.replica(pool(1))
    stage.clock.freeze()
    await replica.liveness.record()
    bot = await run_bot(stage, replica)
    await pass_time(stage, replica, 300)
    assert await replica.recovery.recover() == RecoveryResult()
    stage.clock.move(1)
    assert await replica.recovery.recover() == RecoveryResult(failed=1)
    assert len(stage.backend.calls_of("observe")) > 1
    assert stage.bot(bot)["failure_code"] == "heartbeat_lost"
    await stage.settle(replica)
    assert stage.slots()[0]["status"] == "idle"
    assert stage.backend.running == []


@pytest.mark.parametrize("status", ["deploying", "busy"])
async def test_slot_with_ended_bot_is_released(stage: Stage, status: str) -> None:
    """Only a manual change in the database leads to this state."""
    replica = await stage.replica(pool(1), policy=LONG_TIMEOUT)
    bot = await (start_bot if status == "deploying" else run_bot)(stage, replica)
    assert stage.slots()[0]["status"] == status
    was = stage.statuses(bot)[0]
    stage.rows(
        "UPDATE bots SET status = 'CANCELLED', ended_at = botpool_now() WHERE id = %s RETURNING id",
        bot,
    )
    stage.rows(
        "INSERT INTO history (kind, bot_id, from_state, to_state, reason) "
        "VALUES ('bot.status', %s, %s, 'CANCELLED', 'by hand') RETURNING id",
        bot,
        was,
    )
    assert await replica.recovery.recover() == RecoveryResult(recovered=1)
    await stage.settle(replica)
    assert stage.slots()[0]["status"] == "idle"
    assert stage.backend.running == []


async def test_releasing_without_confirmed_stop_deletes_container(stage: Stage) -> None:
    """The stop is repeated, then the container is deleted; no bot is assigned meanwhile."""
    replica = await stage.replica(pool(1))
    bot = await run_bot(stage, replica)
    container = stage.slots()[0]["container_id"]
    stage.backend.stops_work = False
    await stage.end(replica, bot)
    waiting = (await replica.admission.admit(bot_request())).bot.id
    for _ in range(4):
        stage.clock.move(20)
        await stage.step(replica)
    assert len(stage.backend.calls_of("stop")) > 1
    assert stage.backend.calls_of("delete") == []
    stage.clock.move(60)
    for _ in range(3):
        await stage.step(replica)
    assert len(stage.backend.calls_of("delete")) == 1
    assert stage.statuses(waiting) == ["DEPLOYING"]
    assert container not in stage.backend.containers, "the next bot has a new container"


async def test_idle_with_running_container_is_reset(stage: Stage) -> None:
    """A released agent that calls gets the instruction to exit."""
    replica = await stage.replica(pool(1))
    bot = await run_bot(stage, replica)
    assignment = AssignmentId(stage.slot_of(bot)["assignment_id"])
    await stage.end(replica, bot)
    await stage.settle(replica)
    stage.backend.show(stage.slots()[0]["container_id"], ContainerState.RUNNING)
    assert (await replica.agents.heartbeat(assignment, bot)).should_exit
    assert await replica.recovery.recover() == RecoveryResult(recovered=1)
    assert stage.slots()[0]["status"] == "error", "not assignable before the stop"
    await stage.settle(replica)
    assert stage.slots()[0]["status"] == "idle"
    assert stage.backend.running == []


async def test_error_is_reset_without_a_pass(stage: Stage) -> None:
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.state_after_start = ContainerState.ERROR
    await replica.admission.admit(bot_request())
    await stage.settle(replica)
    slot = stage.slots()[0]
    assert (slot["status"], slot["resets"]) == ("idle", 1)


async def test_error_after_3_failed_resets_is_deleted(stage: Stage) -> None:
    """The slot's next step or the pass deletes it, whichever comes first."""
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.state_after_start = ContainerState.ERROR
    for resets in (1, 2, 3):
        await replica.admission.admit(bot_request())
        await stage.settle(replica)
        assert stage.slots()[0]["resets"] == resets
    await replica.admission.admit(bot_request())
    while stage.slots()[0]["status"] != "error":
        await stage.step(replica)
        await replica.observer.observe("process")
    assert await replica.recovery.recover() == RecoveryResult(deleted=1)
    assert stage.slots()[0]["status"] == "deleting"
    assert await replica.recovery.recover() == RecoveryResult(), "once"
    await stage.settle(replica)
    assert stage.slots() == []
    assert stage.backend.containers == {}


async def test_queue_row_past_its_deadline_fails_bot(stage: Stage) -> None:
    replica = await stage.replica(pool(0))
    bot = (await replica.admission.admit(bot_request(queue_timeout_ms=60_000))).bot.id
    stage.clock.move(59)
    assert (await replica.cleanup.clean(all_strays=False)).expired == 0
    stage.clock.move(2)
    assert (await replica.cleanup.clean(all_strays=False)).expired == 1
    assert stage.bot(bot)["failure_code"] == "queue_timeout"


async def test_stray_container_is_deleted_after_10_min(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await run_bot(stage, replica)
    stage.backend.containers |= {
        "stray": replace(next(iter(stage.backend.containers.values())), name="pool-google-meet-099")
    }
    assert await replica.cleanup.clean(all_strays=False) == CleanupResult()
    stage.clock.move(601)
    assert (await replica.cleanup.clean(all_strays=False)).deleted_containers == 1
    assert list(stage.backend.containers) == [stage.slot_of(bot)["container_id"]]
