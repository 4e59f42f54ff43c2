"""What one caller alone pays for the gathering: against the same statement, sent by itself."""

import time
from collections.abc import Awaitable, Callable

import uvloop

from bench.cycles import WISH, Cycles
from bench.figures import Figure
from bench.ground import Ground, fill_pool
from botpool.engine.wishes import Wish


def measure(ground: Ground) -> list[Figure]:
    fill_pool(ground.url, slots=6_000)
    return [uvloop.run(_measure(ground))]


async def _measure(ground: Ground) -> Figure:
    count = 40 if ground.small else 150
    async with Cycles.on(ground.url) as cycles:
        admission = cycles.replica.admission

        async def alone() -> None:
            wish = Wish(request=WISH, key=None)
            (row,) = await admission._claim([wish])
            assert row is not None
            admission._claimed(wish, row)

        async def gathered() -> None:
            await admission.admit(WISH)

        await _median_of(20, alone)
        ratios = []
        for _ in range(ground.rounds):
            single = await _median_of(count, alone)
            ratios.append(await _median_of(count, gathered) / single)
    return Figure(name="lone_caller", rounds=ratios, goal=1.1, at_most=True)


async def _median_of(count: int, act: Callable[[], Awaitable[None]]) -> float:
    times = []
    for _ in range(count):
        began = time.perf_counter()
        await act()
        times.append(time.perf_counter() - began)
    return sorted(times)[count // 2]
