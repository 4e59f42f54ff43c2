"""The same cycle count against job queues on the same server: enqueue, dequeue, complete.

Who waits for a job of theirs is let go when it has run; that it is done is written behind, by their
worker, and counted in the processor time.
"""

import statistics
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack

import uvloop

from bench import pgqueuer_peer, procrastinate_peer
from bench.closed_loop import Once
from bench.costs import Cost, compared, costed
from bench.cycles import Cycles
from bench.figures import Figure
from bench.ground import Ground, fill_pool

_CALLERS = (32, 256)
_PEERS = {
    "pgqueuer": (pgqueuer_peer.working, 2),
    "procrastinate": (procrastinate_peer.working, 10),
}
_ALARM = 0.3
"""Of the goal. A short run reaches 0.6 to 1.3 of it, by what else the machine does meanwhile."""


def measure(ground: Ground) -> list[Figure]:
    fill_pool(ground.url, slots=512)
    return uvloop.run(_measure(ground))


async def _measure(ground: Ground) -> list[Figure]:
    async with AsyncExitStack() as stack:
        sides: dict[str, Cycles | Once] = {
            "ours": await stack.enter_async_context(Cycles.on(ground.url))
        }
        for name, (working, _) in _PEERS.items():
            sides[name] = await stack.enter_async_context(working(ground.database(name)))
        for side in sides.values():
            await side.per_second(callers=_CALLERS[0], seconds=0.5)
        return [
            figure
            for callers in _CALLERS[: 1 if ground.small else None]
            for figure in await _with_callers(ground, sides, callers)
        ]


async def _with_callers(
    ground: Ground, sides: Mapping[str, Cycles | Once], callers: int
) -> list[Figure]:
    costs: dict[str, list[Cost]] = {name: [] for name in sides}
    for _ in range(1 if ground.small else ground.rounds):
        for name, side in sides.items():
            run = side.per_second(callers=callers, seconds=ground.seconds)
            costs[name].append(await costed(ground, run))
    suffix = "" if callers == _CALLERS[0] else f"_{callers}"
    return [
        _figure(f"{name}{suffix}", costs["ours"], costs[name], goal)
        for name, (_, goal) in _PEERS.items()
    ]


def _figure(peer: str, ours: Sequence[Cost], theirs: Sequence[Cost], goal: float) -> Figure:
    return Figure(
        name=f"claim_release_vs_{peer}",
        rounds=[our.per_second / their.per_second for our, their in zip(ours, theirs, strict=True)],
        goal=goal,
        alarm=goal * _ALARM,
        detail={
            "peer_per_s": round(statistics.median(cost.per_second for cost in theirs)),
            **compared(ours, theirs),
        },
    )
