"""Emulated time: scaled real time for the command, time moved by hand for tests."""

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Emulated seconds since the emulator was made. Never goes back."""
        ...

    @property
    def scale(self) -> float:
        """How many emulated seconds pass in one second of the client's."""
        ...


class ScaledClock:
    """Real time, `scale` times as fast. The scale may change on the way."""

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
        """Jump ahead."""
        self._passed += seconds


class ManualClock:
    """Stands still until it is moved."""

    scale = 1.0

    def __init__(self, now: float = 0.0) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("time does not go back")
        self._now += seconds

    def advance_to(self, moment: float) -> None:
        self._now = max(self._now, moment)
