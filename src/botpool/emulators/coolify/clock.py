"""The clock of emulated time."""

import time


class EmulatedClock:
    """Runs `scale` times as fast as real time; a manual clock changes only by `advance`."""

    def __init__(self, scale: float = 1.0, *, manual: bool = False) -> None:
        self.manual = manual
        self._scale = scale
        self._since = time.monotonic()
        self._passed = 0.0

    @property
    def scale(self) -> float:
        """Emulated seconds per real second. May change at any time."""
        return self._scale

    @scale.setter
    def scale(self, scale: float) -> None:
        self._passed, self._since = self.now(), time.monotonic()
        self._scale = scale

    def now(self) -> float:
        """Return the emulated seconds since the start of the emulator. Never decreases."""
        if self.manual:
            return self._passed
        return self._passed + (time.monotonic() - self._since) * self._scale

    def advance(self, seconds: float) -> None:
        """Jump forward."""
        if seconds < 0:
            raise ValueError("seconds must not be negative")
        self._passed += seconds
