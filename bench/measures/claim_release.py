"""A claim and a release, against PostgreSQL doing only their two statements.

Beside the rates, the processor time of each side: on a machine with other work the first depends
on who else wants the processors, the second does not. And limits, in the same rounds: what a client
without any cost of its own would reach, if both sides kept the processors busy; the ratio of the
same statements sent by the least client there could be; that of the same cycles in a database
without its guards; and that of a sketch, which writes the same rows and is nothing else.

The other side is at its best: its table is vacuumed and analysed before each of its rounds. Without
that its plan is made for an empty table until the server looks at it, and it does a third of this.
"""

import asyncio
import resource
import statistics
from collections.abc import Sequence
from contextlib import AsyncExitStack

import uvloop

from bench import bare, sketch
from bench.costs import compared, costed
from bench.cycles import Cycles
from bench.figures import Figure
from bench.ground import Ground, execute, fill_pool
from bench.least_client import LeastClient
from bench.sketch import Sketch

_SLOTS = 512
_CLIENTS = 32
_ALARM = 0.2
"""One by one, and not gathered, it was a tenth and less. Half of the goal is out of its reach."""

_UNGUARD = (
    """
    DO $$
    DECLARE
        guard record;
    BEGIN
        FOR guard IN SELECT conrelid::regclass AS of, conname FROM pg_constraint
            WHERE contype IN ('f', 'c') AND connamespace = 'public'::regnamespace AND conrelid <> 0
        LOOP
            EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', guard.of, guard.conname);
        END LOOP;
        FOR guard IN SELECT tgrelid::regclass AS of, tgname FROM pg_trigger
            WHERE NOT tgisinternal AND tgname NOT LIKE 'slots_identity_%'
        LOOP
            EXECUTE format('DROP TRIGGER %I ON %s', guard.tgname, guard.of);
        END LOOP;
    END $$
    """,
    """
    DROP INDEX idx_bots_pages, idx_history_slot, idx_history_xid, idx_assignments_slot,
        idx_assignments_assigned, idx_assignments_bot, idx_bot_pool_slots_bot
    """,
)
"""What keeps the rows right, and what finds them for anybody but the cycle itself, taken away."""


def measure(ground: Ground) -> list[Figure]:
    fill_pool(ground.url, slots=_SLOTS)
    bare.prepare(ground.url)
    return uvloop.run(_measure(ground))


async def _measure(ground: Ground) -> list[Figure]:
    figures = []
    async with AsyncExitStack() as stack:
        cycles = await stack.enter_async_context(Cycles.on(ground.url))
        # The limits are left to the long run.
        beside = {} if ground.small else await _limits(ground, stack)
        for warmed in (cycles, *beside.values()):
            await warmed.per_second(callers=_CLIENTS, seconds=1)
        for name, callers, goal in (
            ("claim_release_vs_pgbench", 32, 1.5),
            ("claim_release_vs_pgbench_256", 256, 2.5),
        ):
            ours, theirs = [], []
            rates_beside: dict[str, list[float]] = {each: [] for each in beside}
            for _ in range(ground.rounds):
                bare.refresh(ground.url)
                theirs.append(await costed(ground, _bare(ground), client=resource.RUSAGE_CHILDREN))
                run = cycles.per_second(callers=callers, seconds=ground.seconds)
                ours.append(await costed(ground, run))
                for each, side in beside.items():
                    rate = await side.per_second(callers=callers, seconds=ground.seconds)
                    rates_beside[each].append(rate)
            rates = [their.per_second for their in theirs]
            ratios = [our.per_second / rate for our, rate in zip(ours, rates, strict=True)]
            detail = {
                "cycles_per_s": round(statistics.median(our.per_second for our in ours)),
                "pgbench_per_s": round(statistics.median(rates)),
                **compared(ours, theirs),
                **{each: _median_ratio(found, rates) for each, found in rates_beside.items()},
            }
            figures.append(Figure(name=name, rounds=ratios, goal=goal, alarm=_ALARM, detail=detail))
    return figures


async def _limits(ground: Ground, stack: AsyncExitStack) -> dict[str, Cycles | Sketch]:
    unguarded_url, least_url = ground.database("unguarded"), ground.database("least_client")
    execute(unguarded_url, *_UNGUARD)
    for url in (unguarded_url, least_url):
        fill_pool(url, slots=_SLOTS)
    sketch.prepare(ground.url)
    return {
        "least_client": await stack.enter_async_context(LeastClient.on(least_url)),
        "without_guards": await stack.enter_async_context(Cycles.on(unguarded_url)),
        "sketch": await stack.enter_async_context(Sketch.on(ground.url)),
    }


def _median_ratio(rates: Sequence[float], others: Sequence[float]) -> float:
    pairs = zip(rates, others, strict=True)
    return round(statistics.median(rate / other for rate, other in pairs), 3)


async def _bare(ground: Ground) -> float:
    return await asyncio.to_thread(
        bare.cycles_per_second, ground.url, clients=_CLIENTS, seconds=ground.seconds
    )
