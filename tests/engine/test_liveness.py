"""Time in which this installation could not write heartbeats is no silence of the agents."""

import asyncio
import contextlib
from collections.abc import Iterator

import pytest

from botpool.domain.errors import DatabaseUnavailable
from botpool.domain.heartbeat import HeartbeatReport
from botpool.domain.ids import AssignmentId, BotId, ContainerId
from botpool.engine.maintenance.liveness import WatchedListener
from botpool.engine.maintenance.recovery import RecoveryResult
from botpool.engine.replica import Replica
from botpool.store.liveness import list_listeners
from tests.engine.recovery_cases import pass_time, run_bot
from tests.support.replaced_statements import replaced_statements
from tests.support.replicas import Stage, pool

WINDOW_S = 300


@contextlib.contextmanager
def heartbeats_refused() -> Iterator[None]:
    refuse = "DO $$ BEGIN RAISE EXCEPTION 'full' USING ERRCODE = '53100'; END $$"
    with replaced_statements(record_heartbeats=refuse):
        yield


async def send_heartbeat(stage: Stage, replica: Replica, bot: BotId) -> None:
    await replica.agents.heartbeat(AssignmentId(stage.slot_of(bot)["assignment_id"]), bot)


async def test_heartbeats_that_could_not_be_written_are_no_silence(stage: Stage) -> None:
    """Agents call a replica that cannot write their heartbeats; another replica recovers."""
    failing, other = await stage.replica(pool(3)), await stage.replica(pool(3))
    bots = [await run_bot(stage, failing) for _ in range(3)]
    with heartbeats_refused():
        for _ in range(60):
            for bot in bots:
                with pytest.raises(DatabaseUnavailable):
                    await send_heartbeat(stage, failing, bot)
            await failing.liveness.record()
            await pass_time(stage, other, 29)
            assert await other.recovery.recover() == RecoveryResult()
    await failing.liveness.check()
    await other.recovery.recover()
    for bot in bots:
        await send_heartbeat(stage, failing, bot)
    assert set(stage.statuses(*bots)) == {"JOINING_CALL"}


async def test_heartbeats_that_fail_between_others_that_work_are_no_silence(stage: Stage) -> None:
    """One agent's heartbeats fail each time; another's are written before every check."""
    replica = await stage.replica(pool(2))
    unlucky, lucky = await run_bot(stage, replica), await run_bot(stage, replica)
    for _ in range(12):
        with heartbeats_refused(), pytest.raises(DatabaseUnavailable):
            await send_heartbeat(stage, replica, unlucky)
        await send_heartbeat(stage, replica, lucky)
        await pass_time(stage, replica, WINDOW_S / 6)
        assert await replica.recovery.recover() == RecoveryResult()
    assert set(stage.statuses(unlucky, lucky)) == {"JOINING_CALL"}
    await pass_time(stage, replica, WINDOW_S + 10)
    await send_heartbeat(stage, replica, lucky)
    await replica.recovery.recover()
    assert stage.bot(unlucky)["failure_code"] == "heartbeat_lost"


async def test_agent_that_cannot_identify_itself_is_not_silent(stage: Stage) -> None:
    """The container runs; its agent's first call fails, while others' heartbeats are written."""
    replica = await stage.replica(pool(2))
    unlucky, lucky = await run_bot(stage, replica), await run_bot(stage, replica)
    slot = stage.slot_of(unlucky)
    refuse = "DO $$ BEGIN RAISE EXCEPTION 'full' USING ERRCODE = '53100'; END $$"
    for _ in range(12):
        with replaced_statements(record_boot=refuse), pytest.raises(DatabaseUnavailable):
            await replica.agents.identify(
                AssignmentId(slot["assignment_id"]), ContainerId(slot["container_id"]), "boot"
            )
        await send_heartbeat(stage, replica, lucky)
        await pass_time(stage, replica, WINDOW_S / 6)
        assert await replica.recovery.recover() == RecoveryResult()
    assert set(stage.statuses(unlucky, lucky)) == {"JOINING_CALL"}


async def test_silence_counts_again_when_heartbeats_are_written_again(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await run_bot(stage, replica)
    with heartbeats_refused(), contextlib.suppress(DatabaseUnavailable):
        await send_heartbeat(stage, replica, bot)
    await pass_time(stage, replica, 4 * WINDOW_S)
    assert await replica.recovery.recover() == RecoveryResult()
    await replica.liveness.check()
    await pass_time(stage, replica, WINDOW_S - 10)
    assert await replica.recovery.recover() == RecoveryResult()
    await pass_time(stage, replica, 20)
    await replica.recovery.recover()
    assert stage.bot(bot)["failure_code"] == "heartbeat_lost"


async def test_replica_that_disappeared_counts_as_a_gap_for_one_window(stage: Stage) -> None:
    lost, other = await stage.replica(pool(1)), await stage.replica(pool(1))
    bot = await run_bot(stage, lost)
    await lost.liveness.record()
    await pass_time(stage, other, 2 * WINDOW_S - 10)
    assert await other.recovery.recover() == RecoveryResult()
    await pass_time(stage, other, 20)
    await other.recovery.recover()
    assert stage.bot(bot)["failure_code"] == "heartbeat_lost"


async def test_replica_that_stopped_in_order_is_no_gap(stage: Stage) -> None:
    stopped, other = await stage.replica(pool(1)), await stage.replica(pool(1))
    bot = await run_bot(stage, stopped)
    await other.liveness.record()
    await stopped.liveness.record()
    await stopped.liveness.end()
    await pass_time(stage, other, WINDOW_S + 10)
    await other.recovery.recover()
    assert stage.bot(bot)["failure_code"] == "heartbeat_lost"


async def test_slow_heartbeats_count_as_not_written(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botpool.engine.agents.heartbeats._SLOW_S", 0.0)
    replica = await stage.replica(pool(1))
    bot = await run_bot(stage, replica)
    with replaced_statements(record_heartbeats="SELECT pg_sleep(60)"):
        sending = asyncio.create_task(send_heartbeat(stage, replica, bot))
        while replica.heartbeats.works:
            await asyncio.sleep(0.01)
        sending.cancel()
        await asyncio.wait([sending])


async def test_heartbeats_that_work_do_not_hide_others_that_hang(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Plain heartbeats hang; those with figures, which another statement writes, do not."""
    monkeypatch.setattr("botpool.engine.agents.heartbeats._SLOW_S", 0.0)
    replica = await stage.replica(pool(2))
    hanging, working = await run_bot(stage, replica), await run_bot(stage, replica)
    with replaced_statements(record_heartbeats="SELECT pg_sleep(60)"):
        sending = asyncio.create_task(send_heartbeat(stage, replica, hanging))
        while replica.heartbeats.works:
            await asyncio.sleep(0.01)
        assignment_id = AssignmentId(stage.slot_of(working)["assignment_id"])
        report = HeartbeatReport(progress={"bytes": 1})
        await replica.heartbeats.record(assignment_id, working, report)
        assert not replica.heartbeats.works
        sending.cancel()
        await asyncio.wait([sending])


def watched(replica: Replica, *, answers: bool) -> None:
    """Let the replica find that its HTTP server answers, or that it does not."""

    async def check(timeout_s: float) -> bool:
        return answers

    replica.liveness.watch(WatchedListener(answers=check, file_limit=1024, files_needed=5376))


async def test_time_without_answers_of_the_http_server_is_no_silence(stage: Stage) -> None:
    """Agents reach a replica that accepts no connection; another replica recovers."""
    failing, other = await stage.replica(pool(3)), await stage.replica(pool(3))
    bots = [await run_bot(stage, failing) for _ in range(3)]
    watched(failing, answers=False)
    for _ in range(40):
        await failing.liveness.check()
        await pass_time(stage, other, 29)
        assert await other.recovery.recover() == RecoveryResult()
    assert set(stage.statuses(*bots)) == {"JOINING_CALL"}


async def test_silence_counts_again_when_the_http_server_answers_again(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await run_bot(stage, replica)
    watched(replica, answers=False)
    for _ in range(4 * WINDOW_S // 20):
        await replica.liveness.check()
        await pass_time(stage, replica, 20)
    assert await replica.recovery.recover() == RecoveryResult()
    watched(replica, answers=True)
    await replica.liveness.check()
    await pass_time(stage, replica, WINDOW_S - 10)
    assert await replica.recovery.recover() == RecoveryResult()
    await pass_time(stage, replica, 20)
    await replica.recovery.recover()
    assert stage.bot(bot)["failure_code"] == "heartbeat_lost"


async def test_one_missed_answer_is_no_gap(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await run_bot(stage, replica)
    for answers in (False, True):
        watched(replica, answers=answers)
        await replica.liveness.check()
        await pass_time(stage, replica, 10)
    await pass_time(stage, replica, WINDOW_S)
    await replica.recovery.recover()
    assert stage.bot(bot)["failure_code"] == "heartbeat_lost"


async def test_replica_records_its_file_limit_and_missed_answers(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    watched(replica, answers=False)
    await replica.liveness.check()
    await pass_time(stage, replica, 60)
    watched(replica, answers=True)
    await replica.liveness.check()
    (listener,) = await list_listeners(replica.database, within_s=60)
    assert (listener.file_limit, listener.files_needed) == (1024, 5376)
    assert listener.unanswered_at is not None
    await pass_time(stage, replica, 90_000)
    await replica.liveness.check()
    (listener,) = await list_listeners(replica.database, within_s=60)
    assert listener.unanswered_at is None
