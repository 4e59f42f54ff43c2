"""An event loop on virtual time, in which a seed decides who goes next.

Whoever is about to touch the outside, a transaction or a call to the backend, waits for its turn
here. When everybody waits, one of them is let go, by the seed; or time passes instead. Nothing ever
waits for the machine (the database is asked while the whole loop stands still), so the same seed
gives the same schedule, step by step.
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
"""Time passes in whole ticks: what is due within one is due together."""

_PATIENCE_S = 4.0
"""Nobody who could go on waits longer than this for a turn."""
_STALL_S = (1.0, 25.0)
"""How long somebody may be held up: beyond any lease, as a paused process is."""


class NothingWillHappen(Exception):
    """Everybody waits for something that nobody will do."""


@dataclass(slots=True)
class _Waiting:
    what: str
    from_: float
    called: "asyncio.Future[None]"


class Conductor:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.slow = 0.0
        """How likely it is that time passes although somebody could go on."""
        self.stalls = 0.0
        """How likely it is that a turn comes only after a stall."""
        self.stalls_at: str | None = None
        """Where that happens every other time: many bugs need the same pause twice."""
        self.now = 0.0
        self.trace: list[str] = []
        self._ticks = 0
        self._waiting: list[_Waiting] = []

    async def turn(self, what: str) -> None:
        """Go on when it is your turn."""
        often = self.stalls_at is not None and self.stalls_at in what
        stalls = self.chance.random() < (0.5 if often else self.stalls)
        stall_s = self.chance.uniform(*_STALL_S) if stalls else 0.0
        called = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(what, self.now + stall_s, called))
        await called

    def call_next(self, pause_s: float | None) -> None:
        """Nobody can go on by themselves: call one who waits, or let time pass."""
        self._waiting = [each for each in self._waiting if not each.called.done()]
        able = [each for each in self._waiting if each.from_ <= self.now]
        if not able:
            self._pass(self._until_next(pause_s))
        elif pause_s is not None and self._may_pass(able, pause_s):
            self._pass(pause_s)
        else:
            each = self.chance.choice(able)
            self.trace.append(f"{self.now:.2f} {each.what}")
            each.called.set_result(None)

    def _until_next(self, pause_s: float | None) -> float:
        pauses = [each.from_ - self.now for each in self._waiting]
        if pause_s is not None:
            pauses.append(pause_s)
        if not pauses:
            raise NothingWillHappen
        return min(pauses)

    def _may_pass(self, able: list[_Waiting], pause_s: float) -> bool:
        longest_until = min(each.from_ for each in able) + _PATIENCE_S
        return self.now + pause_s <= longest_until and self.chance.random() < self.slow

    def _pass(self, pause_s: float) -> None:
        self._ticks = max(self._ticks + 1, math.ceil((self.now + pause_s) / _TICK_S))
        self.now = self._ticks * _TICK_S


class _Pause(selectors.SelectSelector):
    """Where a loop would sleep, the conductor decides what comes next."""

    def __init__(self, conductor: Conductor) -> None:
        super().__init__()
        self._conductor = conductor

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None or timeout > 0:
            self._conductor.call_next(timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, conductor: Conductor) -> None:
        super().__init__(_Pause(conductor))
        self._conductor = conductor
        self.numbers = itertools.count()
        """Of its tasks, in the order of their making."""
        self.failures: list[Mapping[str, Any]] = []
        """What nobody waited for, and failed."""
        self.set_exception_handler(lambda _, context: self.failures.append(context))

    def time(self) -> float:
        return self._conductor.now
