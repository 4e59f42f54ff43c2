"""The latency that batching adds for a lone caller, compared with the statement alone."""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable

import uvloop

from bench.cycles import BOT_REQUEST, Cycles
from bench.figures import Figure
from bench.postgres import Bench, fill_pool
from botpool.domain.bots import AdmissionRequest, AdmittedBot
from botpool.engine.admission.bot_requests import new_bot


def measure(bench: Bench) -> list[Figure]:
    fill_pool(bench.url, slots=6_000)
    return [uvloop.run(_measure(bench))]


async def _measure(bench: Bench) -> Figure:
    count = 40 if bench.small else 150
    async with Cycles.on(bench.url) as cycles:
        admission = cycles.replica.admission

        async def unbatched() -> None:
            request = AdmissionRequest(bot=BOT_REQUEST, key=None)
            (claimed,) = await admission._claim([request])
            assert claimed is not None
            AdmittedBot(bot=new_bot(request, claimed))
            # An admission logs in a turn of the event loop before its caller continues.
            await asyncio.sleep(0)

        async def batched() -> None:
            await admission.admit(BOT_REQUEST)

        await _medians(20, unbatched, batched)
        ratios = []
        for _ in range(bench.rounds):
            single, together = await _medians(count, unbatched, batched)
            ratios.append(together / single)
    return Figure(name="lone_caller", rounds=ratios, goal=1.1, at_most=True)


async def _medians(count: int, *actions: Callable[[], Awaitable[None]]) -> list[float]:
    """Return the median time of each action. The actions alternate call by call."""
    times: list[list[float]] = [[] for _ in actions]
    for _ in range(count):
        for action, taken in zip(actions, times, strict=True):
            began = time.perf_counter()
            await action()
            taken.append(time.perf_counter() - began)
    return [statistics.median(taken) for taken in times]
