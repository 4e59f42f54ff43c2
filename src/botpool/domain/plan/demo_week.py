"""A synthetic week of meetings, for users who have no record yet."""

import random
from datetime import UTC, datetime

from botpool.domain.plan.record import PlannedPool, Record, RecordedBot, StartKind, Stay
from botpool.domain.warm import Warm

_MONDAY = datetime(2026, 3, 2, tzinfo=UTC)
_WEEK_S = 7 * 86_400
_TEAMS = ((1, 26), (-5, 14), (8, 6))
"""Time zones (hours from UTC) with the number of meetings in a busy hour."""
_BUSY = {8: 0.4, 9: 1.0, 10: 1.0, 11: 0.8, 12: 0.25, 13: 0.7, 14: 1.0, 15: 0.9, 16: 0.6, 17: 0.2}
"""The share of a busy hour, by local hour: lunch is quiet."""
_WARM_START_S, _COLD_START_S = 30.0, 480.0
_LAST_WEEK = 40
"""Slots that the week before left with a container."""
_POOL = PlannedPool(name="google-meet", max_size=100, warm=Warm())


def demo_week(seed: int = 0) -> tuple[Record, PlannedPool]:
    """Meetings on the hour and the half hour in three time zones, weekdays mostly."""
    chance = random.Random(seed)  # noqa: S311 # reproducible, not secret
    bots: list[RecordedBot] = []
    for day in range(7):
        weight = 1.0 if day < 5 else 0.05
        for offset, busy in _TEAMS:
            for hour, share in _BUSY.items():
                for begin, part in ((0, 0.6), (1_800, 0.3)):
                    count = _poisson(chance, busy * share * part * weight)
                    start_s = day * 86_400 + (hour - offset) * 3_600 + begin
                    bots += [_meeting(chance, start_s + _early(chance)) for _ in range(count)]
                scattered = _poisson(chance, busy * share * 0.1 * weight)
                hour_s = day * 86_400 + (hour - offset) * 3_600
                bots += [
                    _meeting(chance, hour_s + chance.random() * 3_600) for _ in range(scattered)
                ]
    inside = sorted(
        (bot for bot in bots if 0 <= bot.arrived_s < _WEEK_S), key=lambda bot: bot.arrived_s
    )
    return Record(since=_MONDAY, duration_s=_WEEK_S, bots=inside, idle_slots=_LAST_WEEK), _POOL


def _poisson(chance: random.Random, mean: float) -> int:
    """How many of many rare events happen."""
    count, passed = 0, chance.expovariate(1)
    while passed < mean:
        count += 1
        passed += chance.expovariate(1)
    return count


def _early(chance: random.Random) -> float:
    """People send their bots from a minute before to half a minute after the start."""
    return chance.triangular(-60, 30, -3)


def _meeting(chance: random.Random, arrived_s: float) -> RecordedBot:
    length_s = max(chance.gauss(chance.choice((1_500, 1_800, 3_000, 3_600)), 240), 120)
    start_s = chance.lognormvariate(0, 0.15)
    warm = Stay(kind=StartKind.WARM, start_s=_WARM_START_S * start_s, after_s=length_s + 12)
    cold = Stay(kind=StartKind.COLD, start_s=_COLD_START_S * start_s, after_s=length_s + 12)
    return RecordedBot(
        arrived_s=arrived_s,
        priority=100,
        queue_timeout_s=300,
        stays=[warm if chance.random() < 0.9 else cold],
        wait_s=None,
    )
