"""Cycles of a claim and a release, compared with the cycles of job queues on the same server.

A caller of a job queue continues when its job has run. The worker completes the job later, which
counts in the processor time.
"""

import statistics
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack

import uvloop

from bench import pgqueuer_peer, procrastinate_peer
from bench.closed_loop import JobRunner
from bench.cycles import Cycles
from bench.figures import Figure
from bench.postgres import Bench, fill_pool
from bench.processor_time import Cost, compare, measure_cost

_CALLERS = (32, 256)
_PEERS = {"pgqueuer": pgqueuer_peer.working, "procrastinate": procrastinate_peer.working}
_GOALS = {
    ("pgqueuer", 32): 1.5,
    ("pgqueuer", 256): 2.5,
    ("procrastinate", 32): 6.0,
    ("procrastinate", 256): 10.0,
}
_TOLERANCE = 0.3
"""A share of the goal: one short round on a busy machine varies by a factor of two."""


def measure(bench: Bench) -> list[Figure]:
    fill_pool(bench.url, slots=512)
    return uvloop.run(_measure(bench))


async def _measure(bench: Bench) -> list[Figure]:
    async with AsyncExitStack() as stack:
        sides: dict[str, Cycles | JobRunner] = {
            "ours": await stack.enter_async_context(Cycles.on(bench.url))
        }
        for name, working in _PEERS.items():
            sides[name] = await stack.enter_async_context(working(bench.database(name)))
        for side in sides.values():
            await side.per_second(callers=_CALLERS[0], seconds=0.5)
        return [
            figure
            for callers in _CALLERS[: 1 if bench.small else None]
            for figure in await _with_callers(bench, sides, callers)
        ]


async def _with_callers(
    bench: Bench, sides: Mapping[str, Cycles | JobRunner], callers: int
) -> list[Figure]:
    costs: dict[str, list[Cost]] = {name: [] for name in sides}
    for _ in range(1 if bench.small else bench.rounds):
        for name, side in sides.items():
            run = side.per_second(callers=callers, seconds=bench.seconds)
            costs[name].append(await measure_cost(bench, run))
    suffix = "" if callers == _CALLERS[0] else f"_{callers}"
    return [
        _figure(f"{name}{suffix}", costs["ours"], costs[name], _GOALS[name, callers])
        for name in _PEERS
    ]


def _figure(peer: str, ours: Sequence[Cost], theirs: Sequence[Cost], goal: float) -> Figure:
    return Figure(
        name=f"claim_release_vs_{peer}",
        rounds=[our.per_second / their.per_second for our, their in zip(ours, theirs, strict=True)],
        goal=goal,
        tolerance=goal * _TOLERANCE,
        detail={
            "peer_per_s": round(statistics.median(cost.per_second for cost in theirs)),
            **compare(ours, theirs),
        },
    )
