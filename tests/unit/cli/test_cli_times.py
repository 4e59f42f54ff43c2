"""Times as people say them."""

from datetime import UTC, datetime, timedelta

import pytest

from botpool.cli.times import ago, exactly, of_ms, span, took, until

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def at(seconds: float) -> str:
    return (NOW + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


@pytest.mark.parametrize(
    ("seconds", "said"),
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
def test_a_span_is_said_in_its_largest_unit(seconds: float, said: str) -> None:
    assert span(seconds) == said


def test_ages_count_from_the_given_clock() -> None:
    assert ago(at(-12), NOW) == "12 s ago"
    assert ago(at(-180), NOW) == "3 min ago"
    assert ago(None, NOW) == "-"


def test_a_clock_that_is_behind_makes_no_negative_age() -> None:
    assert ago(at(+3), NOW) == "just now"
    assert until(at(-3), NOW) == "now"
    assert until(at(250), NOW) == "in 4 min"


def test_exact_times_are_in_utc_whatever_they_came_in() -> None:
    assert exactly("2026-03-01T12:59:48+01:00", NOW) == "2026-03-01 11:59:48Z, 12 s ago"


def test_measured_times_keep_their_tenths_while_they_matter() -> None:
    assert (took(0.34), took(59.94), took(420)) == ("0.3 s", "59.9 s", "7 min")
    assert (of_ms(None), of_ms(1500)) == ("-", "1.5 s")
