"""Random schedules have no violation, and a thousand of them find each injected bug.

A failing seed replays exactly: `make simulate SEEDS=<seed>` prints it step by step.
"""

import asyncio
import itertools
from collections.abc import Iterator

import pytest

from tests.schedules import schedule
from tests.schedules.injected_bugs import BUGS
from tests.schedules.simulated_database import Server
from tests.support.postgres import TestPostgres
from tests.support.run_sizes import long_or_soak

FIRST_SEEDS = 50
SEEDS_PER_TEST = 10
SEEDS_PER_BUG = 1000
LONG_RUN_SEEDS = long_or_soak(300, 10_000)
FOUND_BY_FIRST_SEEDS = {"a slot is released before its container has stopped"}
"""Bugs that the first few schedules find. The others are part of `make test-long`."""


@pytest.fixture(scope="module")
def server(postgres: TestPostgres, template: str) -> Iterator[Server]:
    url = postgres.create_database(template)
    server = Server(url)
    asyncio.run(server.connect())
    yield server
    asyncio.run(server.close())
    postgres.drop_database(url)


def assert_clean(server: Server, seeds: range) -> None:
    for seed in seeds:
        outcome = schedule.run(server, seed)
        assert not outcome.violations, f"make simulate SEEDS={seed}: {outcome.violations}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(0, FIRST_SEEDS, SEEDS_PER_TEST))
def test_schedules_have_no_violation(server: Server, first: int) -> None:
    assert_clean(server, range(first, first + SEEDS_PER_TEST))


@pytest.mark.long
@pytest.mark.soak
@pytest.mark.timeout(6 * 3600)
def test_many_schedules_have_no_violation(server: Server) -> None:
    assert_clean(server, range(FIRST_SEEDS, LONG_RUN_SEEDS))


@pytest.mark.parametrize("seed", [3])
def test_seed_replays_exactly(server: Server, seed: int) -> None:
    first = schedule.run(server, seed)
    schedule.run(server, seed + 1)
    again = schedule.run(server, seed)
    assert len(first.trace) > 100
    assert again == first


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "bug",
    [
        pytest.param(bug, marks=[] if bug in FOUND_BY_FIRST_SEEDS else pytest.mark.long)
        for bug in BUGS
    ],
)
def test_schedules_find_injected_bug(server: Server, bug: str) -> None:
    with BUGS[bug]():
        found = next(
            (seed for seed in range(SEEDS_PER_BUG) if schedule.run(server, seed).violations), None
        )
    assert found is not None, f"{SEEDS_PER_BUG} schedules did not find that {bug}"


def test_different_seeds_give_different_schedules(server: Server) -> None:
    traces = [schedule.run(server, seed).trace for seed in range(4)]
    assert all(one != other for one, other in itertools.combinations(traces, 2))
