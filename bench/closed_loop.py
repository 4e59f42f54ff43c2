"""Callers who each wait for their work to be done before they ask for more."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from itertools import count


async def per_second(one: Callable[[], Awaitable[None]], *, callers: int, seconds: float) -> float:
    """How often it is done a second, by that many at once, each one after the other."""
    began = time.monotonic()
    done = 0

    async def call() -> None:
        nonlocal done
        while time.monotonic() < began + seconds:
            await one()
            done += 1

    await asyncio.gather(*(call() for _ in range(callers)))
    return done / (time.monotonic() - began)


class Once:
    """Jobs of a peer: each is put in by a caller, who waits until it has run."""

    def __init__(self, put: Callable[[int], Awaitable[None]]) -> None:
        self._put = put
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[None]] = {}

    def ran(self, number: int) -> None:
        if (waiting := self._waiting.pop(number, None)) and not waiting.done():
            waiting.set_result(None)

    async def one(self) -> None:
        number = next(self._numbers)
        done = self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._put(number)
        await done

    async def per_second(self, *, callers: int, seconds: float) -> float:
        return await per_second(self.one, callers=callers, seconds=seconds)
