"""The time of one admission as an installation grows: slots, queue, history.

A small and a large database on one server alternate.
"""

import time

import uvloop

from bench.cycles import BOT_REQUEST, Cycles
from bench.figures import Figure
from bench.postgres import Bench, execute, fill_pool

_QUEUE = (
    "INSERT INTO bots (pool_name, status, meeting_url, bot_display_name, bot_data, priority, "
    "queue_timeout_ms, correlation_id, created_at, queued_at) SELECT 'google-meet', 'QUEUED', "
    "'https://meet.google.com/abc-defg-hij', 'Botpool', '{}', 100, 600000, 'bench', now(), now() "
    "FROM generate_series(1, %d)"
)
_ROWS = (
    "INSERT INTO bot_pool_queue (bot_id, pool_name, priority, queued_at, timeout_at) "
    "SELECT id, pool_name, 100, now(), now() + interval '1 day' FROM bots WHERE status = 'QUEUED'"
)
_HISTORY = (
    "INSERT INTO history (kind, bot_id, slot_id, slot_name, from_state, to_state, reason) "
    "SELECT 'slot.status', n / 6, n %% 100, 'pool-google-meet-001', 'idle', 'deploying', 'bench' "
    "FROM generate_series(1, %d) AS n"
)


def measure(bench: Bench) -> list[Figure]:
    large = 3_000 if bench.small else 100_000
    admissions = 100 if bench.small else 200
    few = bench.database("few_slots_short_history")
    fill_pool(few, slots=admissions * (bench.rounds + 1) * 2)
    slots = few, bench.database("slots_many")
    fill_pool(slots[1], slots=large)
    queue = bench.database("queue_short"), bench.database("queue_long")
    for url in queue:
        fill_pool(url, slots=0)
    _write(queue[1], _QUEUE % large, _ROWS, "VACUUM ANALYZE")
    history = few, bench.database("history_long")
    fill_pool(history[1], slots=admissions * (bench.rounds + 1))
    _write(history[1], _HISTORY % (large * 10), "VACUUM ANALYZE history")
    names = ("growth_slots", slots), ("growth_queue", queue), ("growth_history", history)
    return [uvloop.run(_compare(bench, name, urls)) for name, urls in names]


def _write(url: str, *statements: str) -> None:
    # One transaction: a deferred constraint checks bots and their queue rows at its commit.
    execute(url, "BEGIN", *statements[:-1], "COMMIT", statements[-1])


async def _compare(bench: Bench, name: str, urls: tuple[str, str]) -> Figure:
    count = 30 if bench.small else 150
    async with Cycles.on(urls[0]) as small, Cycles.on(urls[1]) as large:
        for cycles in (small, large):
            await _median_s(cycles, 20)
        ratios, before, after = [], [], []
        for _ in range(bench.rounds):
            before.append(await _median_s(small, count))
            after.append(await _median_s(large, count))
            ratios.append(after[-1] / before[-1])
    detail = {"small_ms": round(min(before) * 1000, 2), "large_ms": round(min(after) * 1000, 2)}
    return Figure(name=name, rounds=ratios, goal=1.5, at_most=True, detail=detail)


async def _median_s(cycles: Cycles, count: int) -> float:
    times = []
    for _ in range(count):
        began = time.perf_counter()
        await cycles.replica.admission.admit(BOT_REQUEST)
        times.append(time.perf_counter() - began)
    return sorted(times)[count // 2]
