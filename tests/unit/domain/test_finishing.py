"""The deadline of a bot that is finishing."""

from datetime import UTC, datetime, timedelta

import pytest

from botpool.domain.finishing import finish_deadline

START = datetime(2026, 1, 5, 10, tzinfo=UTC)


def minutes(number: float) -> datetime:
    return START + timedelta(minutes=number)


@pytest.mark.parametrize(
    ("progress_at", "max_duration_s", "deadline"),
    [
        (None, 21_600, minutes(75)),
        (minutes(30), 21_600, minutes(75)),
        (minutes(70), 21_600, minutes(85)),
        (minutes(70), 4_800, minutes(80)),
        (minutes(70), 0, minutes(85)),
        (None, 3_600, minutes(75)),
        (minutes(74), 3_600, minutes(75)),
    ],
    ids=[
        "whole timeout",
        "progress of the call does not count",
        "progress restarts it",
        "up to the maximum duration",
        "no maximum duration",
        "whole timeout although the maximum duration is over",
        "no progress beyond the maximum duration",
    ],
)
def test_finish_deadline(
    progress_at: datetime | None, max_duration_s: float, deadline: datetime
) -> None:
    assert deadline == finish_deadline(
        finishing_at=minutes(60),
        progress_at=progress_at,
        gap_ended_at=START,
        finish_timeout_s=900,
        running_at=START,
        max_duration_s=max_duration_s,
    )


@pytest.mark.parametrize("progress_at", [None, minutes(62)])
def test_outage_of_botpool_restarts_the_time_to_finish(progress_at: datetime | None) -> None:
    deadline = finish_deadline(
        finishing_at=minutes(60),
        progress_at=progress_at,
        gap_ended_at=minutes(90),
        finish_timeout_s=900,
        running_at=START,
        max_duration_s=21_600,
    )
    assert deadline == minutes(105)
