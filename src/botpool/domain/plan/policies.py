"""The policies that the planner compares, and its recommendation."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta

from botpool.domain.plan.record import PlannedPool, Record, StartKind
from botpool.domain.plan.replay import Floor, Outcome, percentile, replay
from botpool.domain.plan.windows import demand_by_hour, windows_of
from botpool.domain.warm import Warm
from botpool.domain.warm_target import periods

_SCALES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.3, 1.7, 2.5)
"""By what the demand of the record is multiplied for the floors of windows."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    """The share of bots that should run within a time after their arrival."""

    slo: float = 0.999
    within_s: float = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyResult:
    """One row of the planner's table."""

    name: str
    warm: Warm | None
    """None for the record itself."""
    max_size: int
    on_time_share: float
    p50_s: float
    p95_s: float
    p99_s: float
    longest_queue: int | None
    idle_slot_h_per_day: float | None
    hot_slot_h_per_day: float | None
    meets_goal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The comparison of policies for a pool."""

    pool: PlannedPool
    goal: Goal
    record: Record
    results: Sequence[PolicyResult]
    recommended: PolicyResult | None
    """The policy that reaches the goal with the fewest slot hours; None if none does."""


class Planner:
    """Compares policies for one record."""

    def __init__(
        self,
        record: Record,
        pool: PlannedPool,
        goal: Goal,
        *,
        timezone: str = "UTC",
        progress: Progress | None = None,
        pause: Callable[[], None] | None = None,
    ) -> None:
        self._record = record
        self._pool = pool
        self._goal = goal
        self._timezone = timezone
        self._progress = progress
        self._pause = pause
        self._done = 0
        self._total = 8 + len(_SCALES) + math.ceil(math.log2(max(pool.max_size, 2)))

    def plan(self) -> Plan:
        """Replay each policy, and choose the cheapest that reaches the goal."""
        configured = self._try("as configured", self._pool.warm)
        none = self._try("no floors", Warm())
        recorded = any(bot.wait_s is not None for bot in self._record.bots)
        results = [*([self._recorded()] if recorded else []), configured, none]
        results += self._floors(self._pool.max_size)
        results.append(self._ahead_of_schedule())
        needed = self._larger_pool()
        if (
            not any(result.warm and result.meets_goal for result in results)
            and needed > self._pool.max_size
        ):
            results += self._floors(needed)
        able = [result for result in results if result.warm is not None and result.meets_goal]
        recommended = min(able, key=_cost, default=None)
        self._report(self._total)
        return Plan(
            pool=self._pool,
            goal=self._goal,
            record=self._record,
            results=results,
            recommended=recommended,
        )

    def _recorded(self) -> PolicyResult:
        """The waits as recorded, to compare the replay with them."""
        waits = sorted(bot.wait_s for bot in self._record.bots if bot.wait_s is not None)
        expired = sum(bot.wait_s is None and not bot.stays for bot in self._record.bots)
        on_time = sum(wait <= self._goal.within_s for wait in waits)
        share = on_time / (len(waits) + expired) if waits or expired else 1.0
        return PolicyResult(
            name="recorded",
            warm=None,
            max_size=self._pool.max_size,
            on_time_share=share,
            p50_s=percentile(waits, 0.5),
            p95_s=percentile(waits, 0.95),
            p99_s=percentile(waits, 0.99),
            longest_queue=None,
            idle_slot_h_per_day=None,
            hot_slot_h_per_day=None,
            meets_goal=share >= self._goal.slo,
        )

    def _floors(self, max_size: int) -> list[PolicyResult]:
        """The best fixed floor, and windows that never need more hot slots than it."""
        fixed = self._fixed_floor(max_size)
        highest = fixed.warm.hot if fixed.warm and fixed.meets_goal else max_size
        return [fixed, self._windows(max_size, highest)]

    def _fixed_floor(self, max_size: int) -> PolicyResult:
        """The smallest number of hot slots that reaches the goal at all times."""
        low, high = 0, max_size
        best = self._try(f"fixed floor, hot = {high}", Warm(hot=high), max_size)
        while best.meets_goal and low < high:
            middle = (low + high) // 2
            found = self._try(f"fixed floor, hot = {middle}", Warm(hot=middle), max_size)
            if found.meets_goal:
                best, high = found, middle
            else:
                low = middle + 1
        return best

    def _windows(self, max_size: int, highest: int) -> PolicyResult:
        """The lowest floors of windows by hour that reach the goal; else the highest tried."""
        span_s = self._record.start_s()[StartKind.WARM]
        demand = demand_by_hour(self._record, self._timezone, span_s=span_s)
        for scale in _SCALES:
            windows = windows_of(demand, scale=scale, timezone=self._timezone, most=highest)
            result = self._try(f"{len(windows)} windows", Warm(windows=windows), max_size)
            if result.meets_goal:
                break
        return result

    def _ahead_of_schedule(self) -> PolicyResult:
        """Floors that follow the recorded schedule, or as if all bots were scheduled."""
        warm = replace(self._pool.warm, ahead_of_schedule=True)
        if any(bot.scheduled for bot in self._record.bots):
            return self._try("ahead of schedule", warm)
        scheduled = [replace(bot, scheduled=True) for bot in self._record.bots]
        record = replace(self._record, bots=scheduled)
        result = self._try("if all bots were scheduled", warm, record=record)
        # A record without scheduled bots proves nothing about this installation.
        return replace(result, meets_goal=False)

    def _larger_pool(self) -> int:
        """The maximum size at which the record would need no queue, with a fifth in reserve."""
        return math.ceil(self._record.peak() * 1.2)

    def _try(
        self,
        name: str,
        warm: Warm,
        max_size: int | None = None,
        *,
        record: Record | None = None,
    ) -> PolicyResult:
        record = record or self._record
        max_size = self._pool.max_size if max_size is None else max_size
        pool = replace(self._pool, warm=warm, max_size=max_size)
        outcome = replay(
            record,
            pool,
            floors_of(warm, record),
            within_s=self._goal.within_s,
            ahead_of_schedule=warm.ahead_of_schedule,
            pause=self._pause,
        )
        self._done += 1
        self._report(min(self._done, self._total - 1))
        return _result(name, warm, max_size, outcome, self._goal)

    def _report(self, done: int) -> None:
        if self._progress is not None:
            self._progress(done, self._total)


def floors_of(warm: Warm, record: Record) -> list[Floor]:
    """The times in a record at which the floors change."""
    until = record.since + timedelta(seconds=record.duration_s)
    changes: dict[float, list[tuple[int, int, int]]] = {0.0: []}
    for number, window in enumerate(warm.windows):
        for start, end in periods(window, record.since, until):
            opened = changes.setdefault((start - record.since).total_seconds(), [])
            opened.append((number, window.hot, window.idle))
            changes.setdefault((end - record.since).total_seconds(), []).append((number, 0, 0))
    floors: list[Floor] = []
    now_open: dict[int, tuple[int, int]] = {}
    for at_s, changed in sorted(changes.items()):
        for number, hot, idle in sorted(changed, key=lambda each: each[1:]):
            now_open[number] = (hot, idle)
        hot = max([warm.hot, *(each[0] for each in now_open.values())])
        idle = max([warm.idle, *(each[1] for each in now_open.values())])
        floors.append(Floor(at_s=at_s, hot=hot, idle=max(hot, idle)))
    return floors


def _result(name: str, warm: Warm, max_size: int, outcome: Outcome, goal: Goal) -> PolicyResult:
    return PolicyResult(
        name=name,
        warm=warm,
        max_size=max_size,
        on_time_share=outcome.on_time_share,
        p50_s=outcome.percentile_s(0.5),
        p95_s=outcome.percentile_s(0.95),
        p99_s=outcome.percentile_s(0.99),
        longest_queue=outcome.longest_queue,
        idle_slot_h_per_day=outcome.idle_slot_h_per_day,
        hot_slot_h_per_day=outcome.hot_slot_h_per_day,
        meets_goal=outcome.on_time_share >= goal.slo,
    )


def _cost(result: PolicyResult) -> tuple[float, int]:
    """Hot slots cost the most; then the size of the pool."""
    return (result.hot_slot_h_per_day or 0.0, result.max_size)
