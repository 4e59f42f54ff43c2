"""Many cycles, a million with `make soak`: memory, latency and table sizes stay constant."""

import asyncio
import logging
import statistics
import time
from collections.abc import Iterator

import psutil
import psycopg
import pytest
import structlog

from bench.cycles import Cycles
from bench.postgres import fill_pool
from botpool.store.migrator import migrate
from tests.support.invariants import assert_settled
from tests.support.postgres import TestPostgres
from tests.support.run_sizes import long_or_soak

pytestmark = [pytest.mark.long, pytest.mark.soak, pytest.mark.alone]

CYCLES = long_or_soak(50_000, 1_000_000)
CALLERS = 64
PARTS = long_or_soak(5, 10)
COMPARED = 2_000
"""Cycles on either side when the worn database is compared with a new one."""
_MEBI = 1024 * 1024
_SLOT_BYTES = "SELECT pg_total_relation_size('bot_pool_slots')"


@pytest.fixture(autouse=True)
def no_log_lines() -> Iterator[None]:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    yield
    structlog.reset_defaults()


@pytest.mark.timeout(12 * 3600)
async def test_many_cycles_leave_no_dead_rows(postgres: TestPostgres) -> None:
    url, fresh_url = (prepared(postgres) for _ in range(2))
    memory, wear, sizes = [], [], []
    async with Cycles.on(url) as cycles, Cycles.on(fresh_url) as fresh:
        for _ in range(PARTS):
            await median_s(cycles, CYCLES // PARTS)
            wear.append(await compare(cycles, fresh))
            memory.append(psutil.Process().memory_info().rss / _MEBI)
            with psycopg.connect(url) as connection:
                sizes.append(connection.execute(_SLOT_BYTES).fetchone()[0] / _MEBI)  # type: ignore[index]
    figures = f"latency against a new database {wear}, memory {memory}, slots {sizes}"
    logging.getLogger(__name__).warning(figures)
    # The first part warms up: prepared statements, pools of memory.
    assert memory[-1] - memory[1] < 30, figures
    assert statistics.median(wear[-3:]) < 1.5, figures
    # The vacuum keeps up with dead rows on a machine of any speed.
    assert max(sizes) < 64, figures
    assert_settled(url)
    postgres.drop_database(url)
    postgres.drop_database(fresh_url)


def prepared(postgres: TestPostgres) -> str:
    url = postgres.create_database()
    migrate(url)
    fill_pool(url, slots=2 * CALLERS)
    return url


async def compare(worn: Cycles, fresh: Cycles) -> float:
    """Return the ratio of a cycle's time to that in a new database, measured in turns."""
    ratios = [await median_s(worn, COMPARED) / await median_s(fresh, COMPARED) for _ in range(5)]
    return round(statistics.median(ratios), 2)


async def median_s(cycles: Cycles, count: int) -> float:
    """Run the cycles and return the median of their times."""
    times: list[float] = []

    async def call() -> None:
        for _ in range(count // CALLERS):
            began = time.perf_counter()
            await cycles.one()
            times.append(time.perf_counter() - began)

    await asyncio.gather(*(call() for _ in range(CALLERS)))
    return statistics.median(times)
