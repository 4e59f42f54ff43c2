"""The same cycle count against job queues on the same server: enqueue, dequeue, complete."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import uvloop

from bench import pgqueuer_peer, procrastinate_peer
from bench.closed_loop import Once
from bench.cycles import Cycles
from bench.figures import Figure
from bench.ground import Ground, fill_pool

_CALLERS = 32

Peer = Callable[[str], AbstractAsyncContextManager[Once]]


def measure(ground: Ground) -> list[Figure]:
    fill_pool(ground.url, slots=512)
    return [
        uvloop.run(_compare(ground, "claim_release_vs_pgqueuer", pgqueuer_peer.working, 2)),
        uvloop.run(
            _compare(ground, "claim_release_vs_procrastinate", procrastinate_peer.working, 10)
        ),
    ]


async def _compare(ground: Ground, name: str, peer: Peer, goal: float) -> Figure:
    url = ground.database(name)
    async with _both(ground.url, peer(url)) as (cycles, once):
        await cycles.per_second(callers=_CALLERS, seconds=1)
        await once.per_second(callers=_CALLERS, seconds=1)
        ratios, rates = [], []
        for _ in range(ground.rounds):
            theirs = await once.per_second(callers=_CALLERS, seconds=ground.seconds)
            ours = await cycles.per_second(callers=_CALLERS, seconds=ground.seconds)
            ratios.append(ours / theirs)
            rates.append(theirs)
    detail = {"peer_per_s": round(sorted(rates)[len(rates) // 2])}
    return Figure(name=name, rounds=ratios, goal=goal, detail=detail)


@asynccontextmanager
async def _both(
    url: str, peer: AbstractAsyncContextManager[Once]
) -> AsyncIterator[tuple[Cycles, Once]]:
    async with Cycles.on(url) as cycles, peer as once:
        yield cycles, once
