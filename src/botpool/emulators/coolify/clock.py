"""Clocks of emulated time: scaled real time for the command, a manual clock for tests."""

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Return the emulated seconds since the start of the emulator. Never decreases."""
        ...

    @property
    def scale(self) -> float:
        """Emulated seconds per real second."""
        ...


class ScaledClock:
    """Runs `scale` times as fast as real time. The scale may change at any time."""

    def __init__(self, scale: float = 1.0) -> None:
        self._scale = scale
        self._since = time.monotonic()
        self._passed = 0.0

    @property
    def scale(self) -> float:
        return self._scale

    @scale.setter
    def scale(self, scale: float) -> None:
        self._passed, self._since = self.now(), time.monotonic()
        self._scale = scale

    def now(self) -> float:
        return self._passed + (time.monotonic() - self._since) * self._scale

    def advance(self, seconds: float) -> None:
        """Jump forward."""
        self._passed += seconds


class ManualClock:
    """Changes only when a test advances it."""

    scale = 1.0

    def __init__(self, now: float = 0.0) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("seconds must not be negative")
        self._now += seconds

    def advance_to(self, moment: float) -> None:
        self._now = max(self._now, moment)
