"""What a pool does to reach its warm floors, and the rate of the refill."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from botpool.domain.ids import PoolName
from botpool.domain.warm import BookedStart, Warm, WarmPool
from botpool.domain.warm_changes import (
    WarmChanges,
    current_target,
    refilled_until,
    refills_allowed,
    warm_changes,
)

NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
EMPTY = WarmPool(
    pool_name=PoolName("google-meet"),
    backend="process",
    warm=Warm(),
    max_size=100,
    drained=False,
    bots_wait=False,
    size=0,
    fresh=0,
    fresh_ready=0,
    outdated=0,
    stopping=0,
    forced=0,
    failing=0,
    free=0,
    prepared=0,
    unpulled=0,
    preparing=0,
    unprepared=0,
    idle=0,
    expired=0,
    refilled_until=None,
    now=NOW,
)


def changes(starts: int = 0, surplus: int = 0, prepares: int = 0, removals: int = 0) -> WarmChanges:
    return WarmChanges(starts=starts, surplus=surplus, prepares=prepares, removals=removals)


def test_empty_pool_starts_hot_slots_and_prepares_the_other_idle_ones() -> None:
    pool = replace(EMPTY, warm=Warm(hot=2, idle=5))
    assert warm_changes(pool) == changes(starts=2, prepares=3)


def test_standbys_take_prepared_slots_first() -> None:
    pool = replace(EMPTY, warm=Warm(hot=2, idle=5), size=5, free=5, prepared=5, idle=5, fresh=0)
    assert warm_changes(pool) == changes(starts=2)


def test_full_pool_prepares_only_the_slots_that_it_has() -> None:
    pool = replace(EMPTY, warm=Warm(idle=5), max_size=4, size=4, free=1, unprepared=1, idle=1)
    assert warm_changes(pool) == changes(prepares=1)


@pytest.mark.parametrize("field", ["bots_wait", "drained"])
def test_refill_stops_while_bots_wait_or_the_pool_is_drained(field: str) -> None:
    pool = replace(EMPTY, warm=Warm(hot=2, idle=5, idle_ttl_s=1), size=9, idle=9, expired=9)
    assert warm_changes(replace(pool, **{field: True})) == changes()


def test_image_that_is_not_pulled_starts_one_standby_and_a_known_image_stops_it() -> None:
    pool = replace(EMPTY, warm=Warm(idle=3), size=3, free=3, prepared=3, unpulled=3, idle=3)
    assert warm_changes(pool) == changes(starts=1)
    assert warm_changes(replace(pool, warm=Warm(idle=3, can_wait=False))) == changes()
    pulled = replace(pool, fresh=1, fresh_ready=1, free=2, prepared=2, unpulled=0)
    assert warm_changes(pulled) == changes(surplus=1)


def test_surplus_idle_slots_are_removed_down_to_the_floor() -> None:
    pool = replace(EMPTY, warm=Warm(idle=4), size=9, free=9, prepared=9, idle=9, expired=7)
    assert warm_changes(pool) == changes(removals=5)
    assert warm_changes(replace(pool, expired=2)) == changes(removals=2)


def test_failing_slots_are_not_replaced_by_new_ones() -> None:
    pool = replace(EMPTY, warm=Warm(idle=2), size=2, failing=1, preparing=1, free=1, idle=2)
    assert warm_changes(pool) == changes()


def test_scheduled_bots_raise_the_idle_floor_where_containers_cannot_wait() -> None:
    booked = [BookedStart(ready_from=NOW, starts_at=NOW + timedelta(minutes=1))]
    pool = replace(EMPTY, warm=Warm(ahead_of_schedule=True, can_wait=False), booked=booked)
    assert (current_target(pool).hot, current_target(pool).idle) == (0, 1)


def test_target_stays_within_the_maximum() -> None:
    pool = replace(EMPTY, warm=Warm(hot=3, idle=9), max_size=2)
    assert (current_target(pool).hot, current_target(pool).idle) == (2, 2)


def test_refill_has_a_rate() -> None:
    until, started = None, []
    for second in range(6):
        now = NOW + timedelta(seconds=second)
        allowed = refills_allowed(120, until, now)
        until = refilled_until(120, until, now, allowed)
        started.append(allowed)
    assert started == [4, 2, 2, 2, 2, 2]


def test_slow_rate_saves_one_refill() -> None:
    assert refills_allowed(1, None, NOW) == 1
    until = refilled_until(1, None, NOW, 1)
    assert refills_allowed(1, until, NOW + timedelta(seconds=59)) == 0
    assert refills_allowed(1, until, NOW + timedelta(seconds=60)) == 1


def test_unused_time_saves_two_seconds_only() -> None:
    assert refills_allowed(60, NOW - timedelta(hours=5), NOW) == 2


def test_clock_that_is_set_back_does_not_stop_the_refill() -> None:
    until = refilled_until(60, None, NOW, 2)
    assert refills_allowed(60, until, NOW) == 0
    assert refills_allowed(60, until, NOW - timedelta(hours=1)) == 2


def test_rate_limits_starts_before_preparations() -> None:
    pool = replace(EMPTY, warm=Warm(hot=3, idle=9, refill_per_minute=120))
    assert warm_changes(pool) == changes(starts=3, prepares=1)
