"""A claim and a release, against PostgreSQL doing only their two statements.

Beside the rates, the processor time of each side: on a machine with other work the first depends
on who else wants the processors, the second does not. And two limits: what a client without any
cost of its own would reach, if both sides kept the processors busy; and the ratio of the same
cycles in a database without its guards, in the same rounds.
"""

import asyncio
import resource
import statistics

import uvloop

from bench import bare
from bench.costs import compared, costed
from bench.cycles import Cycles
from bench.figures import Figure
from bench.ground import Ground, execute, fill_pool

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
        FOR guard IN SELECT tgrelid::regclass AS of, tgname FROM pg_trigger WHERE NOT tgisinternal
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
    unguarded_url = ground.database("unguarded")
    execute(unguarded_url, *_UNGUARD)
    fill_pool(unguarded_url, slots=_SLOTS)
    async with Cycles.on(ground.url) as cycles, Cycles.on(unguarded_url) as unguarded:
        await cycles.per_second(callers=_CLIENTS, seconds=1)
        await unguarded.per_second(callers=_CLIENTS, seconds=1)
        for name, callers, goal in (
            ("claim_release_vs_pgbench", 32, 1.5),
            ("claim_release_vs_pgbench_256", 256, 2.5),
        ):
            ours, theirs, unguarded_rates = [], [], []
            for _ in range(ground.rounds):
                theirs.append(await costed(ground, _bare(ground), client=resource.RUSAGE_CHILDREN))
                run = cycles.per_second(callers=callers, seconds=ground.seconds)
                ours.append(await costed(ground, run))
                unguarded_rates.append(
                    await unguarded.per_second(callers=callers, seconds=ground.seconds)
                )
            rates = [their.per_second for their in theirs]
            ratios = [our.per_second / rate for our, rate in zip(ours, rates, strict=True)]
            detail = {
                "cycles_per_s": round(statistics.median(our.per_second for our in ours)),
                "pgbench_per_s": round(statistics.median(rates)),
                **compared(ours, theirs),
                "without_guards": round(
                    statistics.median(
                        bold / rate for bold, rate in zip(unguarded_rates, rates, strict=True)
                    ),
                    3,
                ),
            }
            figures.append(Figure(name=name, rounds=ratios, goal=goal, alarm=_ALARM, detail=detail))
    return figures


async def _bare(ground: Ground) -> float:
    return await asyncio.to_thread(
        bare.cycles_per_second, ground.url, clients=_CLIENTS, seconds=ground.seconds
    )
