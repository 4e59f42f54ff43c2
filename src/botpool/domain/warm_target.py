"""How many slots a pool should have ready, as a function of settings, bookings and time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from botpool.domain.warm import BookedStart, Warm, WarmWindow

_DAY = timedelta(days=1)
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmTarget:
    """How many slots a pool should have ready, and why."""

    hot: int
    idle: int
    """Idle slots with a container, hot ones included: never below `hot`."""
    reason: str


def warm_target(warm: Warm, now: datetime, booked: Sequence[BookedStart] = ()) -> WarmTarget:
    """Return the floors of a pool at a time: the highest of its windows, plus scheduled bots."""
    hot, idle, reasons = warm.hot, warm.idle, ["floor"] if warm.hot or warm.idle else []
    for window in warm.windows:
        if not is_open(window, now):
            continue
        if window.hot > hot or window.idle > idle:
            reasons = [*(reason for reason in reasons if reason != "floor"), describe(window)]
        hot, idle = max(hot, window.hot), max(idle, window.idle)
    scheduled = 0
    if warm.ahead_of_schedule:
        scheduled = sum(each.ready_from <= now < each.starts_at for each in booked)
    if scheduled:
        reasons.append(f"{scheduled} scheduled")
    return WarmTarget(
        hot=hot + (scheduled if warm.can_wait else 0),
        idle=max(hot, idle) + scheduled,
        reason=", ".join(reasons) or "no floor",
    )


def is_open(window: WarmWindow, now: datetime) -> bool:
    """Whether a time lies in a window."""
    today = now.astimezone(ZoneInfo(window.timezone)).date()
    return any(
        start <= now < end for day in (today - _DAY, today) for start, end in _period(window, day)
    )


def periods(
    window: WarmWindow, since: datetime, until: datetime
) -> Iterator[tuple[datetime, datetime]]:
    """The times at which a window is open between two times, oldest first."""
    zone = ZoneInfo(window.timezone)
    day = since.astimezone(zone).date() - _DAY
    while day <= until.astimezone(zone).date():
        for start, end in _period(window, day):
            if start < until and end > since:
                yield max(start, since), min(end, until)
        day += _DAY


def _period(window: WarmWindow, day: date) -> Iterator[tuple[datetime, datetime]]:
    """The time at which a window is open that starts on a day; none on other days of the week.

    A time that the clock skips counts as if the clock had not changed. A time that the clock shows
    twice starts a window at its first and ends it at its second occurrence.
    """
    if day.weekday() not in window.days:
        return
    zone = ZoneInfo(window.timezone)
    starts, ends = time.fromisoformat(window.starts), time.fromisoformat(window.ends)
    start = datetime.combine(day, starts, zone).astimezone(UTC)
    last_day = day if ends > starts else day + _DAY
    end = datetime.combine(last_day, ends.replace(fold=1), zone)
    if _is_skipped(end):
        end = end.replace(fold=0)
    yield start, end.astimezone(UTC)


def _is_skipped(local: datetime) -> bool:
    """Whether the clock skips a local time, at the change to daylight saving time."""
    there_and_back = local.astimezone(UTC).astimezone(local.tzinfo)
    return there_and_back.replace(tzinfo=None) != local.replace(tzinfo=None)


def describe(window: WarmWindow) -> str:
    """Describe a window in one line, `window Mon-Fri 08:50-18:00 Europe/Berlin`."""
    return f"window {describe_days(window.days)} {window.starts}-{window.ends} {window.timezone}"


def describe_days(days: Sequence[int]) -> str:
    """Describe days of the week as the settings take them: `Mon-Fri` or `Mon, Wed`."""
    ordered = sorted(days)
    if len(ordered) > 2 and ordered[-1] - ordered[0] == len(ordered) - 1:
        return f"{_DAYS[ordered[0]]}-{_DAYS[ordered[-1]]}"
    return ", ".join(_DAYS[day] for day in ordered)


def check_time_zone(name: str) -> str:
    """Return the name of a time zone; raises ValueError for any other text."""
    try:
        ZoneInfo(name)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        raise ValueError("should be the name of a time zone, such as Europe/Berlin") from None
    return name
