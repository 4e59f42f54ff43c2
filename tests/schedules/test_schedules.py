"""Schedules without a violation; and bugs put in by hand, which a thousand of them find.

A failing seed replays exactly: `make simulate SEEDS=<seed>` shows it step by step.
"""

import asyncio
import itertools
from collections.abc import Iterator

import pytest

from tests.schedules import schedule
from tests.schedules.planted import BUGS
from tests.schedules.simulated_database import Server
from tests.support.postgres import TestPostgres

SOME = 75
PER_TEST = 25
THOUSAND = 1000
MANY = 10_000
EASY = {
    "a slot is released before its container has stopped",
    "an end without a fence reaches whoever came after",
}
"""Bugs that the first schedules find already."""


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


@pytest.mark.parametrize("first", range(0, SOME, PER_TEST))
def test_no_schedule_breaks_what_must_always_hold(server: Server, first: int) -> None:
    assert_clean(server, range(first, first + PER_TEST))


@pytest.mark.long
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seeds", [range(SOME, THOUSAND), range(THOUSAND, MANY)], ids=str)
def test_no_schedule_of_many_more(server: Server, seeds: range) -> None:
    assert_clean(server, seeds)


@pytest.mark.parametrize("seed", [3])
def test_a_seed_replays_exactly(server: Server, seed: int) -> None:
    first = schedule.run(server, seed)
    schedule.run(server, seed + 1)
    again = schedule.run(server, seed)
    assert len(first.trace) > 100
    assert again == first


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "bug", [pytest.param(bug, marks=[] if bug in EASY else pytest.mark.long) for bug in BUGS]
)
def test_a_bug_put_in_by_hand_is_found(server: Server, bug: str) -> None:
    with BUGS[bug]():
        found = next(
            (seed for seed in range(THOUSAND) if schedule.run(server, seed).violations), None
        )
    assert found is not None, f"{THOUSAND} schedules did not find that {bug}"


def test_the_seeds_differ(server: Server) -> None:
    traces = [schedule.run(server, seed).trace for seed in range(4)]
    assert all(one != other for one, other in itertools.combinations(traces, 2))
