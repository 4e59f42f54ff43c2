"""Retries with exponential backoff and jitter, so that agents do not return all at once."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from .errors import Unavailable

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """The delays between retries."""

    first_s: float = 0.5
    cap_s: float = 30.0

    def delays_s(self) -> Iterator[float]:
        """Yield delays that double up to the cap, each reduced by up to half."""
        delay = self.first_s
        while True:
            yield spread(delay, 0.5, 1.0)
            delay = min(delay * 2, self.cap_s)


def spread(seconds: float, low: float, high: float) -> float:
    return seconds * random.uniform(low, high)  # noqa: S311 - spreads load, guards nothing


async def until_answered(call: Callable[[], Awaitable[T]], backoff: Backoff) -> T:
    """Repeat an idempotent call until the control plane answers, also with a refusal."""
    for delay in backoff.delays_s():
        try:
            return await call()
        except Unavailable as outage:
            await asyncio.sleep(outage.retry_after_s + delay)
    raise AssertionError("the delays never end")
