"""Closed-loop load: each caller waits for its result before its next call."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import count


async def per_second(one: Callable[[], Awaitable[None]], *, callers: int, seconds: float) -> float:
    """Return the calls per second of concurrent callers."""
    began = time.monotonic()
    done = 0

    async def call() -> None:
        nonlocal done
        while time.monotonic() < began + seconds:
            await one()
            done += 1

    await asyncio.gather(*(call() for _ in range(callers)))
    return done / (time.monotonic() - began)


class JobRunner:
    """Callers of a job queue: each enqueues a job and waits until the job has run."""

    def __init__(self, enqueue: Callable[[int], Awaitable[None]]) -> None:
        self._enqueue = enqueue
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[None]] = {}

    def finish(self, number: int) -> None:
        """Resume the caller of a job that has run."""
        if (waiting := self._waiting.pop(number, None)) and not waiting.done():
            waiting.set_result(None)

    async def one(self) -> None:
        number = next(self._numbers)
        done = self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._enqueue(number)
        await done

    async def per_second(self, *, callers: int, seconds: float) -> float:
        return await per_second(self.one, callers=callers, seconds=seconds)
