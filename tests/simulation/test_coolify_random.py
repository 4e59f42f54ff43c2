"""Mornings on which several things go wrong at once, by chance, and replicas die.

A seed is a morning: the same seed gives the same faults, stops and deaths. `--mornings N` lives N
of them instead of 120, `--morning SEED` one. Times are a quarter of Coolify's: more mornings.
"""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.simulation.morning import QUARTER, QUARTER_LAG_S, QUARTER_POLICY, Morning, coolify_pool
from tests.simulation.verdict import assert_good, put_in_others, snapshot
from tests.support.postgres import TestPostgres
from tests.support.replicas import TEAMS

TROUBLE_S = 120.0
QUIET_S = 4000.0
PER_TEST = 10
MORNINGS = 120


def some_faults(chance: random.Random) -> dict[str, Any]:
    """One to four things that go wrong."""
    sometimes = {"probability": chance.choice((0.05, 0.2, 0.5))}
    often = {"times": chance.randint(1, 4)}
    kinds: dict[str, Any] = {
        "refuseConnection": {"seconds": chance.choice((10, 60, 150))},
        "resetConnection": {**sometimes, "worked": chance.random() < 0.5},
        "halfAnswer": sometimes,
        "slowAnswer": sometimes,
        "badGateway": {**sometimes, "worked": chance.random() < 0.5},
        "serverError": {**sometimes, "worked": chance.random() < 0.5},
        "rateLimited": {"probability": 0.05, "retryAfter": 15},
        "startWithoutUuid": often,
        "phantomUuid": often,
        "hangQueued": often,
        "hangInProgress": often,
        "pullFails": often,
        "pullSlow": {"seconds": 400, **often},
        "registryDown": True,
        "stopDoesNothing": often,
        "stopLies": often,
        "stopSlow": {"seconds": 60, **often},
        "cancelLeavesRunning": True,
        "cancelAnswers500": True,
        "deleteNeverFinishes": often,
        "reportStatus": {
            "status": chance.choice(("degraded:unhealthy", "paused:unknown", "exited:unhealthy")),
            **often,
        },
        "deploymentsAsObject": True,
        "serverUnreachable": True,
        "restartCoolify": True,
        "versionBefore42": True,
        "missingAbility": {"ability": chance.choice(("deploy", "write", "read"))},
        "tokenExpired": True,
    }
    chosen = chance.sample(sorted(kinds), chance.randint(1, 4))
    return {name: kinds[name] for name in chosen}


async def live(url: str, seed: int) -> None:
    chance = random.Random(seed)
    pools = [coolify_pool(chance.randint(1, 2))]
    if chance.random() < 0.4:
        image = chance.choice(("acme/bot:1", "acme/bot:2"))
        pools.append(coolify_pool(1, TEAMS, image))
    async with Morning.dawn(
        url,
        *pools,
        seed=seed,
        nature=QUARTER,
        replicas=chance.randint(1, 2),
        stay_s=chance.choice((5, 20, 60)),
        policy=QUARTER_POLICY,
        status_lag_s=QUARTER_LAG_S,
    ) as morning:
        others = put_in_others(morning.world)
        before = snapshot(morning.world, others)
        admitted = []
        troubles = {chance.uniform(0, 40): some_faults(chance) for _ in range(chance.randint(1, 2))}
        while morning.now < TROUBLE_S:
            if morning.now < 70 and chance.random() < 0.15:
                pool_name = chance.choice(pools).pool_name
                admitted += await morning.admit(chance.randint(1, 2), pool_name)
            if admitted and chance.random() < 0.02:
                await morning.replica.bot_stopper.stop(chance.choice(admitted))
            if chance.random() < 0.03:
                line = chance.choice(morning.living).line
                line.dies_in, line.dies_before = chance.randint(1, 8), chance.random() < 0.5
            for at in [at for at in troubles if at <= morning.now]:
                morning.world.set_faults(troubles.pop(at))
            await morning.tick(chance.choice((1, 5, 10)))
        morning.world.set_faults({"clear": True})
        await morning.run_until(morning.all_ended, within_s=QUIET_S, tick_s=10)
        # Whoever a stop never reached learns of it at its next beat.
        await morning.tick(15)
        await morning.run_until(morning.is_tidy, within_s=1000, tick_s=15)
        assert_good(morning)
        assert snapshot(morning.world, others) == before


@pytest.fixture
def fresh(postgres: TestPostgres, template: str) -> Iterator[Any]:
    """Gives a database for each morning, and drops those that went well."""
    urls: list[str] = []

    def make() -> str:
        while urls:
            postgres.drop_database(urls.pop())
        urls.append(postgres.create_database(template))
        return urls[-1]

    yield make
    for url in urls:
        postgres.drop_database(url)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    one = metafunc.config.getoption("--morning")
    wanted = metafunc.config.getoption("--mornings")
    if one is not None:
        batches = [range(one, one + 1)]
    else:
        batches = [range(n, min(n + PER_TEST, wanted)) for n in range(0, wanted, PER_TEST)]
    seeds = [pytest.param(batch, id=f"{batch.start}-{batch.stop - 1}") for batch in batches]
    if one is None and wanted == MORNINGS:
        more = range(wanted, 5 * wanted)
        seeds.append(pytest.param(more, id="many more", marks=pytest.mark.long))
    metafunc.parametrize("seeds", seeds)


async def test_whatever_goes_wrong_nothing_is_lost(fresh: Any, seeds: range) -> None:
    for seed in seeds:
        try:
            await live(fresh(), seed)
        except BaseException as error:
            error.add_note(f"again with: pytest tests/simulation --morning {seed}")
            raise
