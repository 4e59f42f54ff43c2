"""Windows found from a record: how many bots arrive at once, by hour of the week."""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from botpool.domain.plan.record import Record
from botpool.domain.warm import WarmWindow

_WEEKDAYS: tuple[int, ...] = (0, 1, 2, 3, 4)
_WEEKEND: tuple[int, ...] = (5, 6)
_MOST_WINDOWS = 6
"""For weekdays and for weekends."""
_EARLY_MINUTES = 10
"""Windows open so much before the hour whose bots they serve, for the refill."""

Demand = Mapping[tuple[int, ...], Sequence[int]]
"""For groups of days: the most arrivals in one span, for each hour of the day."""


def demand_by_hour(record: Record, timezone: str, *, span_s: float) -> Demand:
    """Return the most bots that arrived within a span, by hour, on weekdays and on weekends."""
    zone = ZoneInfo(timezone)
    arrivals = [bot.arrived_s for bot in record.bots]
    demand: dict[tuple[int, ...], list[int]] = {_WEEKDAYS: [0] * 24, _WEEKEND: [0] * 24}
    for number, arrived_s in enumerate(arrivals):
        local = _local(record.since, arrived_s, zone)
        days = _WEEKDAYS if local.weekday() in _WEEKDAYS else _WEEKEND
        burst = bisect_right(arrivals, arrived_s + span_s) - number
        demand[days][local.hour] = max(demand[days][local.hour], burst)
    return demand


def _local(since: datetime, seconds: float, zone: ZoneInfo) -> datetime:
    return (since + timedelta(seconds=seconds)).astimezone(zone)


def windows_of(demand: Demand, *, scale: float, timezone: str, most: int) -> tuple[WarmWindow, ...]:
    """Turn the demand, multiplied by `scale`, into a few windows; at most `most` hot slots each."""
    windows: list[WarmWindow] = []
    for days, by_hour in demand.items():
        levels = [min(math.ceil(bots * scale), most) for bots in by_hour]
        windows += [
            WarmWindow(
                days=tuple(days),
                starts=_opens(first),
                ends=f"{(last + 1) % 24:02d}:00",
                timezone=timezone,
                hot=level,
            )
            for first, last, level in _merge(levels)
            if level
        ]
    return tuple(windows)


def _opens(hour: int) -> str:
    minutes = (hour * 60 - _EARLY_MINUTES) if hour else 0
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def _merge(levels: Sequence[int]) -> list[tuple[int, int, int]]:
    """Merge neighbouring hours where it costs the fewest slot hours, until few are left."""
    periods = [(hour, hour, level) for hour, level in enumerate(levels)]
    while len(periods) > 1:
        costs = [_added_hours(*pair) for pair in pairwise(periods)]
        cheapest = min(range(len(costs)), key=costs.__getitem__)
        if costs[cheapest] > 0 and sum(level > 0 for *_, level in periods) <= _MOST_WINDOWS:
            break
        left, right = periods[cheapest], periods[cheapest + 1]
        periods[cheapest : cheapest + 2] = [(left[0], right[1], max(left[2], right[2]))]
    return periods


def _added_hours(left: tuple[int, int, int], right: tuple[int, int, int]) -> int:
    """The slot hours that a merge of two periods adds."""
    level = max(left[2], right[2])
    return sum((level - each[2]) * (each[1] - each[0] + 1) for each in (left, right))
