"""An event loop on virtual time, in which a seed selects the task that runs next.

Before a transaction or a backend call, a task waits here for its turn. When every task waits, the
scheduler either grants one of them its turn or advances the time, as the seed decides. The loop
blocks while the database works, so the same seed gives the same schedule, step by step.
"""

import asyncio
import itertools
import math
import random
import selectors
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_TICK_S = 0.05
"""Time advances in whole ticks, so timers within one tick fire together."""

_MAX_WAIT_S = 4.0
"""A task that could continue waits at most this long for its turn."""
_STALL_S = (1.0, 25.0)
"""The length of a stall: it may exceed a lease, like that of a paused process."""


class Deadlock(Exception):
    """Every task waits, and neither a turn nor a timer will wake one."""


@dataclass(slots=True)
class _WaitingTask:
    what: str
    from_: float
    turn_granted: "asyncio.Future[None]"


class TurnScheduler:
    """Grants turns to waiting tasks in an order that the seed decides."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.slow = 0.0
        """The probability that time advances although a task could continue."""
        self.stalls = 0.0
        """The probability that a turn is granted only after a stall."""
        self.stalls_at: str | None = None
        """Turns whose label contains this text stall half of the time: many bugs need two."""
        self.now = 0.0
        self.trace: list[str] = []
        self._ticks = 0
        self._waiting: list[_WaitingTask] = []

    async def turn(self, what: str) -> None:
        """Wait until the scheduler grants this task its turn."""
        often = self.stalls_at is not None and self.stalls_at in what
        stalls = self.rng.random() < (0.5 if often else self.stalls)
        stall_s = self.rng.uniform(*_STALL_S) if stalls else 0.0
        turn_granted = asyncio.get_running_loop().create_future()
        self._waiting.append(_WaitingTask(what, self.now + stall_s, turn_granted))
        await turn_granted

    def run_next(self, pause_s: float | None) -> None:
        """Every task waits: grant one of them its turn, or advance the time."""
        self._waiting = [each for each in self._waiting if not each.turn_granted.done()]
        ready = [each for each in self._waiting if each.from_ <= self.now]
        if not ready:
            self._advance(self._until_next(pause_s))
        elif pause_s is not None and self._time_may_pass(ready, pause_s):
            self._advance(pause_s)
        else:
            each = self.rng.choice(ready)
            self.trace.append(f"{self.now:.2f} {each.what}")
            each.turn_granted.set_result(None)

    def _until_next(self, pause_s: float | None) -> float:
        pauses = [each.from_ - self.now for each in self._waiting]
        if pause_s is not None:
            pauses.append(pause_s)
        if not pauses:
            raise Deadlock
        return min(pauses)

    def _time_may_pass(self, ready: list[_WaitingTask], pause_s: float) -> bool:
        longest_until = min(each.from_ for each in ready) + _MAX_WAIT_S
        return self.now + pause_s <= longest_until and self.rng.random() < self.slow

    def _advance(self, pause_s: float) -> None:
        self._ticks = max(self._ticks + 1, math.ceil((self.now + pause_s) / _TICK_S))
        self.now = self._ticks * _TICK_S


class _VirtualSelector(selectors.SelectSelector):
    """Asks the scheduler for the next task where an event loop would sleep."""

    def __init__(self, scheduler: TurnScheduler) -> None:
        super().__init__()
        self._scheduler = scheduler

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None or timeout > 0:
            self._scheduler.run_next(timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, scheduler: TurnScheduler) -> None:
        super().__init__(_VirtualSelector(scheduler))
        self._scheduler = scheduler
        self.numbers = itertools.count()
        """Numbers of the tasks, in the order of their creation."""
        self.failures: list[Mapping[str, Any]] = []
        """Exceptions of tasks that no other task awaits."""
        self.set_exception_handler(lambda _, context: self.failures.append(context))

    def time(self) -> float:
        return self._scheduler.now
