"""Jumps of the database's clock: detected, recorded, and repaired when the clock was set back."""

from datetime import timedelta

import pytest

from botpool.backends.protocol import RequestPurpose
from botpool.domain.errors import BackendUnavailable
from botpool.domain.ids import AssignmentId
from botpool.engine.runtime.clock_watch import ClockWatch
from botpool.engine.runtime.request_budget import SharedRequestBudget
from botpool.store.clock import get_clock_jump
from tests.engine.recovery_cases import pass_time, run_bot
from tests.support.replicas import Stage, bot_request, pool

HOUR_S = 3600
LEASE_S = 20


async def test_interrupted_step_continues_after_the_clock_was_set_back(stage: Stage) -> None:
    """The lease of a dead replica ends within its duration, not an hour later."""
    dead, replica = await stage.replica(pool(1)), await stage.replica(pool(1))
    bot = (await dead.admission.admit(bot_request())).bot
    arrived, _ = stage.backend.hold("ensure")
    await dead.reconciler.run_due_steps()
    await arrived.wait()
    for task in dead.reconciler.under_way:
        task.cancel()
    stage.clock.move(-HOUR_S)
    await replica.recovery.recover()
    assert await stage.step(replica) == 0, "a call of the lease's owner may still be in progress"
    stage.clock.move(LEASE_S + 1)
    await stage.settle(replica)
    assert stage.statuses(bot.id) == ["JOINING_CALL"]


async def test_postponed_stop_is_repeated_after_the_clock_was_set_back(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = await run_bot(stage, replica)
    await stage.end(replica, bot)
    stage.backend.fail("stop", BackendUnavailable("502"))
    await stage.step(replica)
    stage.clock.move(-HOUR_S)
    await replica.recovery.recover()
    await stage.settle(replica)
    assert [slot["status"] for slot in stage.slots()] == ["idle"]


async def test_containers_are_observed_after_the_clock_was_set_back(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    await run_bot(stage, replica)
    await replica.observer.observe_due_backends()
    stage.clock.move(-HOUR_S)
    await replica.recovery.recover()
    observed = len(stage.backend.calls_of("observe"))
    await replica.observer.observe_due_backends()
    assert len(stage.backend.calls_of("observe")) == observed + 1


async def test_queued_bot_keeps_its_time_to_wait_after_the_clock_was_set_back(stage: Stage) -> None:
    replica = await stage.replica(pool(0))
    bot = (await replica.admission.admit(bot_request(queue_timeout_ms=120_000))).bot
    stage.clock.move(-HOUR_S)
    await replica.recovery.recover()
    stage.clock.move(110)
    await replica.queue_poller.poll()
    assert stage.statuses(bot.id) == ["QUEUED"]
    stage.clock.move(20)
    await replica.queue_poller.poll()
    assert stage.statuses(bot.id) == ["FAILED"]


async def test_silent_bot_is_lost_after_one_window_though_the_clock_was_set_back(
    stage: Stage,
) -> None:
    replica = await stage.replica(pool(1))
    bot = await run_bot(stage, replica)
    await replica.agents.heartbeat(AssignmentId(stage.slot_of(bot)["assignment_id"]), bot)
    await replica.liveness.record()
    stage.clock.move(-HOUR_S)
    await replica.recovery.recover()
    await pass_time(stage, replica, 290)
    assert (await replica.recovery.recover()).failed == 0
    await pass_time(stage, replica, 20)
    assert (await replica.recovery.recover()).failed == 1


async def test_bot_that_was_asked_to_leave_is_stopped_after_the_clock_was_set_back(
    stage: Stage,
) -> None:
    replica = await stage.replica(pool(1))
    bot = await run_bot(stage, replica)
    await replica.bot_stopper.stop(bot)
    stage.clock.move(-HOUR_S)
    await replica.recovery.recover()
    await stage.settle(replica)
    assert stage.statuses(bot) == ["LEAVING"], "the grace is not over"
    stage.clock.move(31)
    await stage.settle(replica)
    assert stage.statuses(bot) == ["CANCELLED"]


async def test_running_bot_keeps_its_maximum_duration_after_the_clock_was_set_back(
    stage: Stage,
) -> None:
    replica = await stage.replica(pool(1))
    bot = await run_bot(stage, replica)
    stage.clock.move(-HOUR_S)
    await replica.recovery.recover()
    await stage.settle(replica)
    assert stage.statuses(bot) == ["JOINING_CALL"]
    assert await in_future(stage, "next_step_at", "bot_pool_slots") == timedelta(hours=6)


async def test_requests_of_the_future_do_not_exhaust_the_budget(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    budget = SharedRequestBudget(
        database=replica.database, backend="process", requests_per_minute=10
    )
    await budget.take(RequestPurpose.STOP, 10)
    stage.clock.move(-HOUR_S)
    await replica.recovery.recover()
    await budget.take(RequestPurpose.STOP, 10)


async def test_plausible_times_are_not_changed(stage: Stage) -> None:
    replica = await stage.replica(pool(3))
    await run_bot(stage, replica)
    await replica.admission.admit(bot_request())
    leaving = await run_bot(stage, replica)
    await replica.bot_stopper.stop(leaving)
    for _ in range(2):
        await replica.admission.admit(bot_request())
    await replica.reconciler.run_due_steps()
    before = stage.slots(), stage.rows("SELECT * FROM bot_pool_queue ORDER BY id")
    await replica.recovery.rescheduling.run()
    assert (stage.slots(), stage.rows("SELECT * FROM bot_pool_queue ORDER BY id")) == before
    await stage.settle(replica)


@pytest.mark.parametrize(
    ("database_s", "monotonic_s", "jump"),
    [
        (10, 10, None),
        (14, 10, None),
        (3610, 10, 3600),
        (-3590, 10, -3600),
        (40, 40, None),
    ],
)
async def test_jump_is_the_difference_between_the_clocks(
    stage: Stage, database_s: float, monotonic_s: float, jump: float | None
) -> None:
    replica = await stage.replica(pool(1))
    await replica.liveness.record()
    jumps: list[float] = []
    now_s = 0.0
    watch = ClockWatch(replica.database, on_jump=jumps.append, monotonic=lambda: now_s)
    await watch.check()
    stage.clock.move(database_s)
    now_s += monotonic_s
    await watch.check()
    await watch.check()
    assert jumps == ([] if jump is None else [jump])
    recorded = await get_clock_jump(replica.database)
    assert (recorded and recorded.seconds) == jump


async def test_slow_answer_is_no_jump(stage: Stage) -> None:
    """The database's clock was read at any time between the question and the answer."""
    replica = await stage.replica(pool(1))
    jumps: list[float] = []
    times = iter([0.0, 60.0, 70.0, 70.0, 80.0, 140.0])
    watch = ClockWatch(replica.database, on_jump=jumps.append, monotonic=lambda: next(times))
    await watch.check()
    stage.clock.move(12)
    await watch.check()
    stage.clock.move(65)
    await watch.check()
    assert jumps == []


async def in_future(stage: Stage, column: str, table: str) -> timedelta:
    (row,) = stage.rows(f"SELECT {column} - botpool_now() AS ahead FROM {table}")
    ahead: timedelta = row["ahead"]
    return ahead
