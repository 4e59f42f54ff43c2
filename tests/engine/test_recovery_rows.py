"""Each row of the recovery table of the design, as a test named after it."""

from dataclasses import replace

import pytest

from botpool.domain.ids import AssignmentId
from botpool.domain.observation import ContainerState
from botpool.domain.policy import Policy
from botpool.domain.states import BotStatus
from botpool.engine.maintenance.cleanup import CleanupResult
from botpool.engine.maintenance.recovery import RecoveryResult
from tests.engine.patients import LONG, alive, beat, busy, deployed
from tests.support.replicas import Stage, pool, wish


@pytest.mark.parametrize(("attempts", "ends"), [(2, "QUEUED"), (1, "FAILED")])
async def test_deploying_starting_over_15_min_no_heartbeat_and_no_deployment_under_way(
    stage: Stage, attempts: int, ends: str
) -> None:
    """Reset; queued again while attempts remain, else FAILED `deploy_failed`."""
    replica = await stage.replica(pool(1), policy=replace(LONG, deploy_attempts=attempts))
    bot = await deployed(stage, replica)
    stage.backend.finish(stage.slots()[0]["container_id"])
    await alive(stage, replica, 890)
    assert await replica.recovery.recover() == RecoveryResult()
    await alive(stage, replica, 20)
    assert await replica.recovery.recover() == RecoveryResult(recovered=1)
    await stage.settle(replica)
    went = stage.rows("SELECT to_state FROM history WHERE bot_id = %s AND kind = 'bot.status'", bot)
    assert ends in [row["to_state"] for row in went]
    assert stage.bot(bot)["failure_code"] == ("deploy_failed" if ends == "FAILED" else None)
    assert stage.bot(bot)["attempts"] == attempts


async def test_deploying_over_15_min_last_heartbeat_over_5_min_ago(stage: Stage) -> None:
    """It did run: reset; FAILED `heartbeat_lost`, never retried."""
    replica = await stage.replica(pool(1), policy=LONG)
    bot = await deployed(stage, replica)
    await alive(stage, replica, 600)
    beat(stage, bot)
    await alive(stage, replica, 310)
    assert await replica.recovery.recover() == RecoveryResult(failed=1)
    await stage.settle(replica)
    row = stage.bot(bot)
    assert (row["failure_code"], row["attempts"]) == ("heartbeat_lost", 1)
    assert stage.slots()[0]["status"] == "idle"


@pytest.mark.parametrize("skipped", [0, 1, 2])
async def test_deploying_over_15_min_heartbeat_fresh_skipped_less_than_3_times(
    stage: Stage, skipped: int
) -> None:
    """Skip: touch (the 15 min start anew), count the skip."""
    replica = await stage.replica(pool(1), policy=LONG)
    bot = await deployed(stage, replica)
    for _ in range(skipped + 1):
        await alive(stage, replica, 910)
        beat(stage, bot)
        assert await replica.recovery.recover() == RecoveryResult(skipped=1)
    slot = stage.slots()[0]
    assert (slot["status"], slot["skipped_recoveries"]) == ("deploying", skipped + 1)
    await alive(stage, replica, 890)
    beat(stage, bot)
    assert await replica.recovery.recover() == RecoveryResult(), "the time has started anew"


async def test_deploying_over_15_min_heartbeat_fresh_skipped_3_times(stage: Stage) -> None:
    """Heal: slot to `busy`, skips to 0, counted as skipped."""
    replica = await stage.replica(pool(1), policy=LONG)
    bot = await deployed(stage, replica)
    stage.rows("UPDATE bot_pool_slots SET skipped_recoveries = 3, version = version + 1")
    await alive(stage, replica, 910)
    beat(stage, bot)
    assert await replica.recovery.recover() == RecoveryResult(skipped=1)
    slot = stage.slots()[0]
    assert (slot["status"], slot["skipped_recoveries"]) == ("busy", 0)
    assert stage.statuses(bot) == ["JOINING_CALL"]


async def test_deploying_over_15_min_deployment_under_way_and_under_25_min(stage: Stage) -> None:
    """Skip, uncounted; past the 25 minutes the start has timed out."""
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    bot = await deployed(stage, replica)
    await alive(stage, replica, 1490)
    assert await replica.recovery.recover() == RecoveryResult(skipped=1)
    assert stage.slots()[0]["skipped_recoveries"] == 0
    await alive(stage, replica, 20)
    await stage.settle(replica)
    assert stage.bot(bot)["failure_code"] == "deploy_failed"


@pytest.mark.parametrize(
    ("said", "ends"), [(None, ("FAILED", "container_exited")), ("CALL_ENDED", ("DONE", None))]
)
async def test_busy_a_fresh_look_shows_it_exited(
    stage: Stage, said: str | None, ends: tuple[str, str | None]
) -> None:
    """FAILED `container_exited` (DONE after CALL_ENDED), release; also where it is silent too."""
    replica = await stage.replica(pool(1))
    bot = await busy(stage, replica)
    if said:
        assignment = AssignmentId(stage.slot_of(bot)["assignment_id"])
        await replica.agents.report(assignment, bot, BotStatus(said), None)
    await alive(stage, replica, 310)
    stage.backend.show(stage.slots()[0]["container_id"], ContainerState.EXITED)
    assert await replica.recovery.recover() == RecoveryResult(failed=1)
    assert (stage.bot(bot)["status"], stage.bot(bot)["failure_code"]) == ends
    await stage.settle(replica)
    assert stage.slots()[0]["status"] == "idle"


async def test_busy_heartbeats_required_and_none_for_5_min(stage: Stage) -> None:
    """Look first, exited wins; else FAILED `heartbeat_lost`, release. Exactly 5 min is fresh."""
    replica = await stage.replica(pool(1))
    stage.clock.freeze()
    await replica.recovery.record_liveness()
    bot = await busy(stage, replica)
    await alive(stage, replica, 300)
    assert await replica.recovery.recover() == RecoveryResult()
    stage.clock.move(1)
    assert await replica.recovery.recover() == RecoveryResult(failed=1)
    assert len(stage.backend.made("look")) > 1
    assert stage.bot(bot)["failure_code"] == "heartbeat_lost"
    await stage.settle(replica)
    assert stage.slots()[0]["status"] == "idle"
    assert stage.backend.running == []


@pytest.mark.parametrize("status", ["deploying", "busy"])
async def test_deploying_or_busy_and_its_bot_is_final(stage: Stage, status: str) -> None:
    """Release. No path of ours makes one, a hand in the database may."""
    replica = await stage.replica(pool(1), policy=LONG)
    bot = await (deployed if status == "deploying" else busy)(stage, replica)
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


async def test_releasing_and_no_confirmation_in_time(stage: Stage) -> None:
    """Stop again, then delete the container; nobody gets it meanwhile."""
    replica = await stage.replica(pool(1))
    bot = await busy(stage, replica)
    container = stage.slots()[0]["container_id"]
    stage.backend.stops_work = False
    await stage.end(replica, bot)
    waiting = (await replica.admission.admit(wish())).bot.id
    for _ in range(4):
        stage.clock.move(20)
        await stage.step(replica)
    assert len(stage.backend.made("stop")) > 1
    assert stage.backend.made("delete") == []
    stage.clock.move(60)
    for _ in range(3):
        await stage.step(replica)
    assert len(stage.backend.made("delete")) == 1
    assert stage.statuses(waiting) == ["DEPLOYING"]
    assert container not in stage.backend.containers, "the next one has a container of its own"


async def test_idle_and_its_container_is_seen_running(stage: Stage) -> None:
    """Stop it; a released agent that calls is told to exit."""
    replica = await stage.replica(pool(1))
    bot = await busy(stage, replica)
    assignment = AssignmentId(stage.slot_of(bot)["assignment_id"])
    await stage.end(replica, bot)
    await stage.settle(replica)
    stage.backend.show(stage.slots()[0]["container_id"], ContainerState.RUNNING)
    assert (await replica.agents.heartbeat(assignment, bot)).should_exit
    assert await replica.recovery.recover() == RecoveryResult(recovered=1)
    assert stage.slots()[0]["status"] == "error", "nobody gets it before it has stopped"
    await stage.settle(replica)
    assert stage.slots()[0]["status"] == "idle"
    assert stage.backend.running == []


async def test_error_is_reset_at_once(stage: Stage) -> None:
    """Always, and without waiting for a pass."""
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.state_after_start = ContainerState.ERROR
    await replica.admission.admit(wish())
    await stage.settle(replica)
    slot = stage.slots()[0]
    assert (slot["status"], slot["resets"]) == ("idle", 1)


async def test_error_and_3_failures(stage: Stage) -> None:
    """To `deleting`: by its next step, or by the pass, whichever comes first; then gone."""
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.state_after_start = ContainerState.ERROR
    for resets in (1, 2, 3):
        await replica.admission.admit(wish())
        await stage.settle(replica)
        assert stage.slots()[0]["resets"] == resets
    await replica.admission.admit(wish())
    while stage.slots()[0]["status"] != "error":
        await stage.step(replica)
        await replica.observer.observe("process")
    assert await replica.recovery.recover() == RecoveryResult(deleted=1)
    assert stage.slots()[0]["status"] == "deleting"
    assert await replica.recovery.recover() == RecoveryResult(), "once"
    await stage.settle(replica)
    assert stage.slots() == []
    assert stage.backend.containers == {}


async def test_a_queue_row_past_its_deadline(stage: Stage) -> None:
    """Bot FAILED `queue_timeout`."""
    replica = await stage.replica(pool(0))
    bot = (await replica.admission.admit(wish(queue_timeout_ms=60_000))).bot.id
    stage.clock.move(59)
    assert (await replica.cleanup.clean(all_strays=False)).expired == 0
    stage.clock.move(2)
    assert (await replica.cleanup.clean(all_strays=False)).expired == 1
    assert stage.bot(bot)["failure_code"] == "queue_timeout"


async def test_a_container_with_our_mark_and_no_slot(stage: Stage) -> None:
    """First seen by us > 10 min ago, in a list that succeeded: delete."""
    replica = await stage.replica(pool(1))
    bot = await busy(stage, replica)
    stage.backend.containers |= {
        "stray": replace(next(iter(stage.backend.containers.values())), name="pool-google-meet-099")
    }
    assert await replica.cleanup.clean(all_strays=False) == CleanupResult()
    stage.clock.move(601)
    assert (await replica.cleanup.clean(all_strays=False)).deleted_containers == 1
    assert list(stage.backend.containers) == [stage.slot_of(bot)["container_id"]]
