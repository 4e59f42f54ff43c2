"""Replays follow the admission rules."""

from datetime import UTC, datetime

import pytest

from botpool.domain.plan.policies import Goal, Planner, floors_of
from botpool.domain.plan.record import PlannedPool, Record, RecordedBot, StartKind, Stay
from botpool.domain.plan.replay import Outcome, replay
from botpool.domain.warm import Warm, WarmWindow

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)


def bot(
    arrived_s: float,
    *,
    stay_s: float = 600,
    start_s: float | None = 30,
    kind: StartKind = StartKind.WARM,
    priority: int = 100,
    timeout_s: float = 300,
    scheduled: bool = False,
) -> RecordedBot:
    stay = Stay(kind=kind, start_s=start_s, after_s=stay_s)
    return RecordedBot(
        arrived_s=arrived_s,
        priority=priority,
        queue_timeout_s=timeout_s,
        stays=[stay],
        wait_s=None,
        scheduled=scheduled,
    )


def run(
    bots: list[RecordedBot],
    *,
    max_size: int = 10,
    warm: Warm | None = None,
    idle_slots: int = 10,
    duration_s: float = 86_400,
    within_s: float = 5,
) -> Outcome:
    warm = warm or Warm()
    record = Record(since=MONDAY, duration_s=duration_s, bots=bots, idle_slots=idle_slots)
    pool = PlannedPool(name="google-meet", max_size=max_size, warm=warm)
    return replay(
        record,
        pool,
        floors_of(warm, record),
        within_s=within_s,
        ahead_of_schedule=warm.ahead_of_schedule,
    )


def test_bot_in_an_idle_slot_starts_warm_as_recorded() -> None:
    assert run([bot(0, start_s=27)]).waits_s == [27]


def test_bot_without_an_idle_slot_starts_cold() -> None:
    bots = [bot(0, start_s=27), bot(1, start_s=400, kind=StartKind.COLD)]
    assert run(bots, idle_slots=1).waits_s == [27, 400]


def test_bot_in_a_full_pool_waits_for_a_release() -> None:
    outcome = run([bot(0, stay_s=100), bot(10)], max_size=1, idle_slots=1)
    # The slot is free 130 s after the first arrival; the second bot then needs 30 s.
    assert outcome.waits_s == [30, 150]
    assert outcome.longest_queue == 1


def test_new_bot_never_overtakes_the_queue() -> None:
    bots = [bot(0, stay_s=100), bot(10, stay_s=100), bot(130.5)]
    assert run(bots, max_size=1, idle_slots=1).waits_s == pytest.approx([30, 150, 159.5])


def test_lower_priority_number_goes_first() -> None:
    bots = [bot(0, stay_s=100), bot(1, stay_s=50), bot(2, stay_s=50, priority=1)]
    waits = run(bots, max_size=1, idle_slots=1).waits_s
    assert waits == pytest.approx([30, 158, 239])


def test_bot_expires_in_the_queue_and_is_late() -> None:
    outcome = run(
        [bot(0, stay_s=1_000), bot(1, timeout_s=60)], max_size=1, idle_slots=1, within_s=100
    )
    assert outcome.waits_s == [30, 60]
    assert outcome.on_time_share == 0.5


def test_hot_slots_serve_a_burst_and_are_refilled() -> None:
    bots = [bot(1_000 + number / 100) for number in range(3)]
    bots += [bot(2_000 + number / 100) for number in range(2)]
    outcome = run(bots, warm=Warm(hot=2))
    # Two hot starts, and one in the standby that the refill starts. Later, two hot starts again.
    assert sum(wait <= 5 for wait in outcome.waits_s) == 4
    assert 30 < outcome.waits_s[-1] < 31


def test_claim_takes_a_standby_that_comes_up_before_an_idle_slot() -> None:
    # The standby of the floor is ready 30 s after the start; the bot arrives after 20 s.
    assert run([bot(20)], warm=Warm(hot=1)).waits_s == pytest.approx([10.3])


def test_refill_never_starts_while_a_bot_waits() -> None:
    bots = [bot(1_000, stay_s=500), bot(1_001, stay_s=500, timeout_s=600)]
    outcome = run(bots, max_size=1, idle_slots=1, warm=Warm(hot=1))
    # The slot that the first bot frees goes to the second at once.
    assert outcome.waits_s == pytest.approx([0.3, 1_000 + 0.3 + 500 - 1_001 + 30])


def test_window_keeps_slots_hot_only_while_it_is_open() -> None:
    window = WarmWindow(days=(0,), starts="09:00", ends="10:00", timezone="UTC", hot=1)
    outcome = run([bot(9.5 * 3_600), bot(12 * 3_600)], warm=Warm(windows=(window,)))
    assert outcome.waits_s == [0.3, 30]
    assert outcome.hot_slot_h_per_day == pytest.approx(1, rel=0.05)


def test_surplus_idle_slots_are_removed_after_their_ttl() -> None:
    kept = run([bot(0)], idle_slots=1)
    removed = run([bot(0)], idle_slots=1, warm=Warm(idle_ttl_s=3_600))
    assert kept.idle_slot_h_per_day > 23
    assert removed.idle_slot_h_per_day == pytest.approx(1, rel=0.05)


def test_scheduled_bot_finds_a_hot_slot() -> None:
    bots = [bot(1_000, scheduled=True), bot(1_500)]
    assert run(bots, warm=Warm(ahead_of_schedule=True)).waits_s == [0.3, 30]


def test_recommended_policy_reaches_the_goal_with_the_fewest_hot_hours() -> None:
    bots = [bot(day * 86_400 + 9 * 3_600 + number) for day in range(5) for number in range(8)]
    record = Record(since=MONDAY, duration_s=7 * 86_400, bots=bots, idle_slots=20)
    pool = PlannedPool(name="google-meet", max_size=20, warm=Warm())
    plan = Planner(record, pool, Goal(slo=0.999, within_s=5)).plan()
    recommended = plan.recommended
    assert recommended is not None
    assert recommended.warm is not None
    assert recommended.warm.windows
    fixed = next(result for result in plan.results if result.name.startswith("fixed"))
    assert fixed.meets_goal
    assert (recommended.hot_slot_h_per_day or 0) < (fixed.hot_slot_h_per_day or 0) / 5


def test_pool_that_is_too_small_gets_a_larger_maximum() -> None:
    bots = [bot(9 * 3_600 + number, stay_s=3_600) for number in range(10)]
    record = Record(since=MONDAY, duration_s=86_400, bots=bots, idle_slots=2)
    pool = PlannedPool(name="google-meet", max_size=2, warm=Warm())
    plan = Planner(record, pool, Goal()).plan()
    assert plan.recommended is not None
    assert plan.recommended.max_size == 12
