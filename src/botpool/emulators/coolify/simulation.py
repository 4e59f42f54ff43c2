"""Emulated time and randomness, and the context that all parts of the emulator share."""

import heapq
import itertools
import random
import string
from collections.abc import Callable

from botpool.emulators.coolify.config import Duration, EmulatorConfig
from botpool.emulators.coolify.container_runtime import ContainerRuntime
from botpool.emulators.coolify.faults import Faults

_UUID_ALPHABET = string.ascii_lowercase + string.digits
_UUID_LENGTH = 24

Action = Callable[[], None]


class Scheduler:
    """Runs actions at emulated times; actions with the same time run in the order of scheduling."""

    def __init__(self) -> None:
        self.now = 0.0
        self._order = itertools.count()
        self._events: list[tuple[float, int, Action]] = []

    def after(self, delay_s: float, action: Action) -> None:
        heapq.heappush(self._events, (self.now + max(delay_s, 0.0), next(self._order), action))

    def next_at(self) -> float | None:
        return self._events[0][0] if self._events else None

    def advance(self, to: float) -> None:
        """Run all actions that are due until `to`. A time in the past changes nothing."""
        while self._events and self._events[0][0] <= to:
            self.now, _, action = heapq.heappop(self._events)
            action()
        self.now = max(self.now, to)


class Randomness:
    """The only source of randomness: the same seed and calls give the same values."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - reproducible on purpose

    def uuid(self) -> str:
        """Return an id in the format of Coolify's ids (cuid2)."""
        first = self._random.choice(string.ascii_lowercase)
        return first + "".join(self._random.choices(_UUID_ALPHABET, k=_UUID_LENGTH - 1))

    def between(self, bounds: Duration) -> float:
        """Return a duration; a fixed one draws nothing."""
        return self._random.uniform(*bounds) if isinstance(bounds, tuple) else bounds

    def happens(self, probability: float) -> bool:
        return probability >= 1 or self._random.random() < probability


class Simulation:
    """Time, randomness, faults, configuration and container runtime, which all parts share."""

    def __init__(self, config: EmulatorConfig, seed: int, runtime: ContainerRuntime) -> None:
        self.config = config
        self.runtime = runtime
        self.scheduler = Scheduler()
        self.randomness = Randomness(seed)
        self.faults = Faults(self.randomness.happens)

    @property
    def now(self) -> float:
        return self.scheduler.now

    @property
    def server_reachable(self) -> bool:
        return self.faults.active("serverUnreachable") is None
