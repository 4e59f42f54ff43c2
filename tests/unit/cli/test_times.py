"""Times and durations in words."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from botpool.cli.times import ago, duration, duration_of_ms, precise_duration, time_and_age, until

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "0 s"),
        (0.9, "0 s"),
        (12, "12 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (3600, "1 h"),
        (47 * 3600, "47 h"),
        (48 * 3600, "2 d"),
        (40 * 86_400, "40 d"),
    ],
)
def test_duration_uses_its_largest_unit(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_age_is_relative_to_the_given_time() -> None:
    assert ago(at(-12), NOW) == "12 s ago"
    assert ago(at(-180), NOW) == "3 min ago"
    assert ago(None, NOW) == "-"


def test_age_is_never_negative() -> None:
    assert ago(at(+3), NOW) == "just now"
    assert until(at(-3), NOW) == "now"
    assert until(at(250), NOW) == "in 4 min"


def test_times_are_shown_in_utc() -> None:
    assert (
        time_and_age(at(-12).astimezone(timezone(timedelta(hours=1))), NOW)
        == "2026-03-01 11:59:48Z, 12 s ago"
    )


def test_precise_durations_have_tenths_up_to_a_minute() -> None:
    assert tuple(map(precise_duration, (0.34, 59.94, 420))) == ("0.3 s", "59.9 s", "7 min")
    assert (duration_of_ms(None), duration_of_ms(1500)) == ("-", "1.5 s")
