"""Cycles of a claim and a release, compared with PostgreSQL running only their two statements.

pgbench runs at its best: its table is vacuumed and analysed before each of its rounds. Beside the
rates, the measure reports the processor time of both sides, which depends less on other work on
the machine.
"""

import asyncio
import resource
import statistics

import uvloop

from bench import bare_postgres
from bench.cycles import Cycles
from bench.figures import Figure
from bench.postgres import Bench, fill_pool
from bench.processor_time import compare, measure_cost

_SLOTS = 512
_CLIENTS = 32


def measure(bench: Bench) -> list[Figure]:
    fill_pool(bench.url, slots=_SLOTS)
    bare_postgres.prepare(bench.url)
    return uvloop.run(_measure(bench))


async def _measure(bench: Bench) -> list[Figure]:
    async with Cycles.on(bench.url) as cycles:
        await cycles.per_second(callers=_CLIENTS, seconds=1)
        return [
            await _compare(bench, cycles, name, callers)
            for name, callers in (
                ("claim_release_vs_pgbench", 32),
                ("claim_release_vs_pgbench_256", 256),
            )
        ]


async def _compare(bench: Bench, cycles: Cycles, name: str, callers: int) -> Figure:
    ours, theirs = [], []
    for _ in range(bench.rounds):
        bare_postgres.refresh(bench.url)
        theirs.append(
            await measure_cost(bench, _run_pgbench(bench), client=resource.RUSAGE_CHILDREN)
        )
        run = cycles.per_second(callers=callers, seconds=bench.seconds)
        ours.append(await measure_cost(bench, run))
    return Figure(
        name=name,
        rounds=[our.per_second / their.per_second for our, their in zip(ours, theirs, strict=True)],
        detail={
            "cycles_per_s": round(statistics.median(our.per_second for our in ours)),
            "pgbench_per_s": round(statistics.median(their.per_second for their in theirs)),
            **compare(ours, theirs),
        },
    )


async def _run_pgbench(bench: Bench) -> float:
    return await asyncio.to_thread(
        bare_postgres.cycles_per_second, bench.url, clients=_CLIENTS, seconds=bench.seconds
    )
