"""Times as people say them: how long ago, how long still, how long it took."""

from datetime import UTC, datetime

_STEPS = ((60, 1, "s"), (3600, 60, "min"), (86_400 * 2, 3600, "h"), (float("inf"), 86_400, "d"))


def moment(text: str) -> datetime:
    """A time of the API."""
    return datetime.fromisoformat(text)


def span(seconds: float) -> str:
    """A length of time in its largest unit: '12 s', '3 min', '5 h', '4 d'."""
    seconds = max(seconds, 0)
    for below, unit_s, unit in _STEPS:
        if seconds < below:
            return f"{int(seconds // unit_s)} {unit}"
    raise AssertionError("unreachable: the last step has no bound")


def took(seconds: float) -> str:
    """A measured length, with tenths while they matter."""
    return f"{max(seconds, 0):.1f} s" if seconds < 60 else span(seconds)


def of_ms(milliseconds: int | None) -> str:
    return "-" if milliseconds is None else took(milliseconds / 1000)


def ago(text: str | None, now: datetime) -> str:
    """How long a time lies back. The server's clock is a whole second, so a moment ago is now."""
    if text is None:
        return "-"
    seconds = (now - moment(text)).total_seconds()
    return "just now" if seconds < 1 else f"{span(seconds)} ago"


def until(text: str, now: datetime) -> str:
    seconds = (moment(text) - now).total_seconds()
    return "now" if seconds < 1 else f"in {span(seconds)}"


def exactly(text: str | None, now: datetime) -> str:
    """The time itself and how long ago it was."""
    if text is None:
        return "-"
    return f"{moment(text).astimezone(UTC):%Y-%m-%d %H:%M:%S}Z, {ago(text, now)}"
