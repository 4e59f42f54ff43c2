"""Times and durations in words."""

from datetime import UTC, datetime

_STEPS = ((60, 1, "s"), (3600, 60, "min"), (86_400 * 2, 3600, "h"), (float("inf"), 86_400, "d"))


def duration(seconds: float) -> str:
    """A duration in its largest unit: '12 s', '3 min', '5 h', '4 d'."""
    seconds = max(seconds, 0)
    for below, unit_s, unit in _STEPS:
        if seconds < below:
            return f"{int(seconds // unit_s)} {unit}"
    raise AssertionError("unreachable: the last step has no bound")


def precise_duration(seconds: float) -> str:
    """A duration with tenths of a second, up to a minute."""
    return f"{max(seconds, 0):.1f} s" if seconds < 60 else duration(seconds)


def duration_of_ms(milliseconds: int | None) -> str:
    return "-" if milliseconds is None else precise_duration(milliseconds / 1000)


def ago(at: datetime | None, now: datetime) -> str:
    """The age of a time. The server's clock has whole seconds, so less than one is 'just now'."""
    if at is None:
        return "-"
    seconds = (now - at).total_seconds()
    return "just now" if seconds < 1 else f"{duration(seconds)} ago"


def until(at: datetime, now: datetime) -> str:
    seconds = (at - now).total_seconds()
    return "now" if seconds < 1 else f"in {duration(seconds)}"


def moment(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S}Z"


def time_and_age(at: datetime | None, now: datetime) -> str:
    if at is None:
        return "-"
    return f"{moment(at)}, {ago(at, now)}"
