"""Waiting for the control plane without a thousand agents coming back in step."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from .errors import Unavailable

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    first_s: float = 0.5
    cap_s: float = 30.0

    def delays_s(self) -> Iterator[float]:
        """Doubling up to the cap; each delay is cut by up to half."""
        delay = self.first_s
        while True:
            yield spread(delay, 0.5, 1.0)
            delay = min(delay * 2, self.cap_s)


def spread(seconds: float, low: float, high: float) -> float:
    return seconds * random.uniform(low, high)  # noqa: S311 - spreads load, guards nothing


async def until_answered(call: Callable[[], Awaitable[T]], backoff: Backoff) -> T:
    """Repeat an idempotent call until the control plane answers, be it with a refusal."""
    for delay in backoff.delays_s():
        try:
            return await call()
        except Unavailable as outage:
            await asyncio.sleep(outage.retry_after_s + delay)
    raise AssertionError("the delays never end")
