"""Rate limits of the API per emulated minute, over all tokens."""

from dataclasses import dataclass

MINUTE_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimitState:
    limit: int
    remaining: int
    resets_at: float
    exceeded: bool = False


class RateLimitWindow:
    """Laravel's rate limiter: a window begins with the first call after the previous window."""

    def __init__(self) -> None:
        self._ends_at = 0.0
        self._count = 0

    def count(self, now: float, limit: int) -> RateLimitState:
        if now >= self._ends_at:
            self._count = 0
        if self._count >= limit:
            return RateLimitState(limit=limit, remaining=0, resets_at=self._ends_at, exceeded=True)
        if self._count == 0:
            self._ends_at = now + MINUTE_S
        self._count += 1
        return RateLimitState(limit=limit, remaining=limit - self._count, resets_at=self._ends_at)
