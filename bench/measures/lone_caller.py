"""What one caller alone pays for the gathering: against the same statement, sent by itself."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

import uvloop

from bench.cycles import WISH, Cycles
from bench.figures import Figure
from bench.ground import Ground, fill_pool
from botpool.domain.records import AdmittedBot
from botpool.engine.admission.bot_requests import AdmissionRequest, to_new_bot


def measure(ground: Ground) -> list[Figure]:
    fill_pool(ground.url, slots=6_000)
    return [uvloop.run(_measure(ground))]


async def _measure(ground: Ground) -> Figure:
    count = 40 if ground.small else 150
    async with Cycles.on(ground.url) as cycles:
        admission = cycles.replica.admission

        async def alone() -> None:
            wish = AdmissionRequest(request=WISH, key=None)
            (row,) = await admission._claim([wish])
            assert row is not None
            AdmittedBot(bot=to_new_bot(wish, row))
            # What an admission tells of is told in a turn of its own, before the caller's.
            await asyncio.sleep(0)

        async def gathered() -> None:
            await admission.admit(WISH)

        await _medians(20, alone, gathered)
        ratios = []
        for _ in range(ground.rounds):
            single, together = await _medians(count, alone, gathered)
            ratios.append(together / single)
    return Figure(name="lone_caller", rounds=ratios, goal=1.1, at_most=True)


async def _medians(count: int, *acts: Callable[[], Awaitable[None]]) -> list[float]:
    """How long each takes. They take turns call by call: what disturbs one disturbs all."""
    times: list[list[float]] = [[] for _ in acts]
    for _ in range(count):
        for act, taken in zip(acts, times, strict=True):
            began = time.perf_counter()
            await act()
            taken.append(time.perf_counter() - began)
    return [statistics.median(taken) for taken in times]
