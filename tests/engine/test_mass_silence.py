"""Mass silence is judged by pool and time window, not by pass."""

import pytest
import structlog

from botpool.domain.ids import AssignmentId, BotId
from botpool.engine.maintenance.recovery import RecoveryResult
from botpool.engine.replica import Replica
from tests.engine.recovery_cases import pass_time, run_bot
from tests.support.replicas import Stage, pool


async def heartbeat(stage: Stage, replica: Replica, bot: BotId) -> None:
    assignment = AssignmentId(stage.slot_of(bot)["assignment_id"])
    await replica.agents.heartbeat(assignment, bot)


async def fall_silent_one_by_one(
    stage: Stage, replica: Replica, bots: list[BotId], *, every_s: float
) -> None:
    """Send the last heartbeat of each bot, some seconds after that of the one before."""
    for bot in bots:
        await heartbeat(stage, replica, bot)
        await pass_time(stage, replica, every_s)


@pytest.mark.parametrize("every_s", [3, 25])
async def test_bots_that_fall_silent_one_after_another_count_together(
    stage: Stage, every_s: float
) -> None:
    replica = await stage.replica(pool(6))
    bots = [await run_bot(stage, replica) for _ in range(6)]
    await fall_silent_one_by_one(stage, replica, bots, every_s=every_s)
    await pass_time(stage, replica, 301 - 3 * every_s)
    result = await replica.recovery.recover()
    assert result.failed == 0, "the first bots are silent for a window, the last ones are not yet"
    assert stage.rows("SELECT silence_alarm_at FROM pools")[0]["silence_alarm_at"] is not None
    await pass_time(stage, replica, 300)
    assert (await replica.recovery.recover()).failed == 4, "after two windows, they are lost"
    await pass_time(stage, replica, 3 * every_s)
    assert (await replica.recovery.recover()).failed == 2


async def test_passes_that_divide_the_silent_bots_count_them_together(stage: Stage) -> None:
    """A pass leaves out slots under lease; another replica's pass finds them."""
    replica, other = await stage.replica(pool(6)), await stage.replica(pool(6))
    for _ in range(6):
        await run_bot(stage, replica)
    await pass_time(stage, replica, 310)
    for passing, leased in ((replica, "number > 4"), (other, "number <= 4")):
        stage.rows(
            "UPDATE bot_pool_slots SET version = version + 1, lease_owner = 'another', "
            f"lease_until = CASE WHEN {leased} THEN botpool_now() + interval '20 s' END"
        )
        assert (await passing.recovery.recover()).failed == 0


async def test_pass_that_observes_no_silent_bot_keeps_the_alarm(stage: Stage) -> None:
    replica, other = await stage.replica(pool(6)), await stage.replica(pool(6))
    for _ in range(6):
        await run_bot(stage, replica)
    await pass_time(stage, replica, 310)
    with structlog.testing.capture_logs() as log:
        await replica.recovery.recover()
        stage.rows(
            "UPDATE bot_pool_slots SET version = version + 1, lease_owner = 'another', "
            "lease_until = botpool_now() + interval '20 s'"
        )
        assert await other.recovery.recover() == RecoveryResult()
        for _ in range(3):
            await pass_time(stage, replica, 20)
            await other.liveness.record()
        assert (await other.recovery.recover()).skipped == 6
    assert [line["event"] for line in log].count("recovery.mass_silence") == 1


async def test_alarm_ends_when_the_bots_call_again(stage: Stage) -> None:
    replica = await stage.replica(pool(6))
    bots = [await run_bot(stage, replica) for _ in range(6)]
    await pass_time(stage, replica, 310)
    await replica.recovery.recover()
    for bot in bots:
        await heartbeat(stage, replica, bot)
    with structlog.testing.capture_logs() as log:
        assert await replica.recovery.recover() == RecoveryResult()
    assert [line["event"] for line in log] == ["recovery.mass_silence_ended"]
    assert stage.rows("SELECT silence_alarm_at FROM pools")[0]["silence_alarm_at"] is None


async def test_few_silent_bots_fail_after_one_window(stage: Stage) -> None:
    replica = await stage.replica(pool(12))
    bots = [await run_bot(stage, replica) for _ in range(12)]
    await pass_time(stage, replica, 290)
    for bot in bots[6:]:
        await heartbeat(stage, replica, bot)
    await pass_time(stage, replica, 20)
    assert (await replica.recovery.recover()).failed == 6, "half of the pool is not most of it"


async def test_lost_bots_of_the_window_count_with_the_next_silent_ones(stage: Stage) -> None:
    """Three of six bots are lost first; the other three fall silent four minutes later."""
    replica = await stage.replica(pool(6))
    bots = [await run_bot(stage, replica) for _ in range(6)]
    await pass_time(stage, replica, 270)
    for bot in bots[3:]:
        await heartbeat(stage, replica, bot)
    await pass_time(stage, replica, 35)
    assert (await replica.recovery.recover()).failed == 0, "all six are late"
    for bot in bots[3:]:
        await heartbeat(stage, replica, bot)
    assert (await replica.recovery.recover()).failed == 3
    await pass_time(stage, replica, 280)
    stage.rows("UPDATE bot_heartbeats SET last_at = last_at - interval '30 s'")
    assert (await replica.recovery.recover()).failed == 0
