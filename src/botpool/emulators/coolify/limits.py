"""How often the API may be called: per user, over all tokens, and by the emulated minute."""

from collections import Counter
from dataclasses import dataclass

_MINUTE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    limit: int
    remaining: int
    resets_at: float
    exceeded: bool


class Window:
    """Laravel's limiter: a minute begins with the first call after the last minute's end."""

    def __init__(self) -> None:
        self._ends_at = 0.0
        self._count = 0

    def count(self, now: float, limit: int) -> Budget:
        budget = self.look(now, limit)
        if budget.exceeded:
            return budget
        if self._count == 0:
            self._ends_at = now + _MINUTE_S
        self._count += 1
        return Budget(
            limit=limit,
            remaining=limit - self._count,
            resets_at=self._ends_at,
            exceeded=False,
        )

    def look(self, now: float, limit: int) -> Budget:
        if now >= self._ends_at:
            self._count = 0
        return Budget(
            limit=limit,
            remaining=max(limit - self._count, 0),
            resets_at=self._ends_at,
            exceeded=self._count >= limit,
        )


class Requests:
    """All requests that came, by emulated minute."""

    def __init__(self) -> None:
        self._by_minute: Counter[int] = Counter()

    def count(self, now: float) -> None:
        self._by_minute[int(now // _MINUTE_S)] += 1

    def by_minute(self, now: float) -> list[int]:
        """From the first minute to the present one."""
        return [self._by_minute[minute] for minute in range(int(now // _MINUTE_S) + 1)]


class Limits:
    """What was counted so far. Of the world: clients on other ways share it."""

    def __init__(self) -> None:
        self.requests = Requests()
        self.calls = Window()
        self.failed_calls = Window()
