"""The target of a pool at a time: floors, windows, bookings, and both changes of the clock."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from botpool.domain.warm import BookedStart, Warm, WarmWindow
from botpool.domain.warm_target import periods, warm_target

BERLIN = ZoneInfo("Europe/Berlin")
WEEKDAYS = (0, 1, 2, 3, 4)
EVERY_DAY = (0, 1, 2, 3, 4, 5, 6)


def window(
    days: tuple[int, ...], starts: str, ends: str, *, hot: int = 0, idle: int = 0
) -> WarmWindow:
    return WarmWindow(
        days=days, starts=starts, ends=ends, timezone="Europe/Berlin", hot=hot, idle=idle
    )


def berlin(text: str, fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold)


def test_floor_applies_at_all_times() -> None:
    target = warm_target(Warm(hot=3, idle=5), datetime(2026, 3, 2, tzinfo=UTC))
    assert (target.hot, target.idle, target.reason) == (3, 5, "floor")


def test_pool_without_floors_has_target_zero() -> None:
    target = warm_target(Warm(), datetime(2026, 3, 2, tzinfo=UTC))
    assert (target.hot, target.idle, target.reason) == (0, 0, "no floor")


@pytest.mark.parametrize(
    ("now", "hot"),
    [
        ("2026-03-02T08:49:59", 1),
        ("2026-03-02T08:50:00", 20),
        ("2026-03-02T17:59:59", 20),
        ("2026-03-02T18:00:00", 1),
        ("2026-03-07T12:00:00", 1),  # a Saturday
    ],
)
def test_window_is_open_from_its_start_until_before_its_end(now: str, hot: int) -> None:
    warm = Warm(hot=1, windows=(window(WEEKDAYS, "08:50", "18:00", hot=20),))
    assert warm_target(warm, berlin(now)).hot == hot


def test_highest_of_overlapping_windows_applies() -> None:
    warm = Warm(
        windows=(
            window(WEEKDAYS, "08:00", "18:00", hot=5, idle=30),
            window(WEEKDAYS, "09:00", "10:00", hot=20, idle=1),
        )
    )
    target = warm_target(warm, berlin("2026-03-02T09:30:00"))
    assert (target.hot, target.idle) == (20, 30)
    assert "08:00-18:00" in target.reason
    assert "09:00-10:00" in target.reason


def test_window_past_midnight_belongs_to_the_day_of_its_start() -> None:
    warm = Warm(windows=(window((4,), "22:00", "02:00", hot=4),))
    assert warm_target(warm, berlin("2026-03-07T01:59:00")).hot == 4  # Saturday, from Friday
    assert warm_target(warm, berlin("2026-03-06T01:59:00")).hot == 0  # Friday, from Thursday


def test_window_with_equal_times_lasts_a_day() -> None:
    warm = Warm(windows=(window((0,), "06:00", "06:00", hot=4),))
    assert warm_target(warm, berlin("2026-03-03T05:59:00")).hot == 4
    assert warm_target(warm, berlin("2026-03-03T06:00:00")).hot == 0


def test_window_keeps_local_time_over_both_clock_changes() -> None:
    warm = Warm(windows=(window(EVERY_DAY, "08:50", "18:00", hot=2),))
    for day in ("2026-03-28", "2026-03-29", "2026-03-30", "2026-10-24", "2026-10-25", "2026-10-26"):
        assert warm_target(warm, berlin(f"{day}T08:49:00")).hot == 0, day
        assert warm_target(warm, berlin(f"{day}T08:50:00")).hot == 2, day
        assert warm_target(warm, berlin(f"{day}T17:59:00")).hot == 2, day
        assert warm_target(warm, berlin(f"{day}T18:00:00")).hot == 0, day


def test_window_in_the_skipped_hour_opens_and_closes_an_hour_later() -> None:
    # On 29 March 2026 the clock goes from 02:00 to 03:00.
    (period,) = periods(
        window((6,), "02:15", "02:45", hot=2),
        datetime(2026, 3, 29, tzinfo=UTC),
        datetime(2026, 3, 30, tzinfo=UTC),
    )
    assert period == (berlin("2026-03-29T03:15:00"), berlin("2026-03-29T03:45:00"))


def test_window_around_the_skipped_hour_is_an_hour_shorter() -> None:
    (period,) = periods(
        window((6,), "01:00", "04:00", hot=2),
        datetime(2026, 3, 28, 12, tzinfo=UTC),
        datetime(2026, 3, 30, tzinfo=UTC),
    )
    assert period[1] - period[0] == timedelta(hours=2)


def test_window_in_the_repeated_hour_covers_both_occurrences() -> None:
    # On 25 October 2026 the clock shows 02:00 to 03:00 twice.
    warm = Warm(windows=(window((6,), "02:15", "02:45", hot=2),))
    for fold in (0, 1):
        assert warm_target(warm, berlin("2026-10-25T02:30:00", fold)).hot == 2
    assert warm_target(warm, berlin("2026-10-25T02:50:00", 1)).hot == 0
    (period,) = periods(
        warm.windows[0], datetime(2026, 10, 24, 12, tzinfo=UTC), datetime(2026, 10, 26, tzinfo=UTC)
    )
    assert period[1] - period[0] == timedelta(minutes=90)


def test_target_depends_on_the_time_alone_after_a_clock_jump() -> None:
    warm = Warm(hot=1, windows=(window(WEEKDAYS, "09:00", "10:00", hot=8),))
    before = warm_target(warm, berlin("2026-03-02T09:30:00"))
    assert warm_target(warm, berlin("2026-03-02T10:30:00")).hot == 1
    assert warm_target(warm, berlin("2026-03-02T09:30:00")) == before


def test_scheduled_bots_raise_the_floor_while_they_are_due() -> None:
    now = berlin("2026-03-02T09:30:00")
    booked = [
        BookedStart(ready_from=now - timedelta(minutes=1), starts_at=now + timedelta(minutes=1)),
        BookedStart(ready_from=now, starts_at=now + timedelta(minutes=1)),
        BookedStart(ready_from=now + timedelta(seconds=1), starts_at=now + timedelta(minutes=1)),
        BookedStart(ready_from=now - timedelta(minutes=2), starts_at=now),
    ]
    target = warm_target(Warm(hot=3, ahead_of_schedule=True), now, booked)
    assert (target.hot, target.idle, target.reason) == (5, 5, "floor, 2 scheduled")
    assert warm_target(Warm(hot=3), now, booked).hot == 3


@pytest.mark.parametrize("change", ["2026-03-29T00:00:00+01:00", "2026-10-25T00:00:00+02:00"])
def test_periods_and_the_target_agree_over_clock_changes(change: str) -> None:
    windows = (
        window(EVERY_DAY, "01:30", "03:30", hot=1),
        window(EVERY_DAY, "02:30", "02:40", hot=1),
        window(EVERY_DAY, "22:10", "02:20", hot=1),
    )
    start = datetime.fromisoformat(change).astimezone(UTC) - timedelta(days=1)
    until = start + timedelta(days=3)
    for each in windows:
        found = list(periods(each, start, until))
        for minute in range(3 * 24 * 60):
            now = start + timedelta(minutes=minute)
            expected = any(begin <= now < end for begin, end in found)
            assert (warm_target(Warm(windows=(each,)), now).hot == 1) == expected, now
