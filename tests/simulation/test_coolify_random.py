"""Simulations with several random faults at once, and crashing replicas.

The same seed gives the same faults, stops and crashes. `--simulations N` runs N seeds instead of
40, `--simulation-seed SEED` runs one. Coolify's times are a quarter of the usual ones.
"""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.simulation.coolify_simulation import (
    FAST_COOLIFY,
    FAST_POLICY,
    FAST_STATUS_LAG_S,
    CoolifySimulation,
    coolify_pool,
)
from tests.simulation.outcome_checks import (
    add_foreign_applications,
    assert_consistent_end,
    snapshot,
)
from tests.support.postgres import TestPostgres
from tests.support.replicas import TEAMS
from tests.support.run_sizes import long_or_soak

FAULTS_UNTIL_S = 120.0
SETTLE_WITHIN_S = 4000.0
SEEDS_PER_TEST = 10
SIMULATIONS = 40
LONG = [pytest.mark.long, pytest.mark.soak, pytest.mark.timeout(6 * 3600)]


def random_faults(rng: random.Random) -> dict[str, Any]:
    """Choose one to four faults."""
    sometimes = {"probability": rng.choice((0.05, 0.2, 0.5))}
    often = {"times": rng.randint(1, 4)}
    kinds: dict[str, Any] = {
        "refuseConnection": {"seconds": rng.choice((10, 60, 150))},
        "resetConnection": {**sometimes, "worked": rng.random() < 0.5},
        "halfAnswer": sometimes,
        "slowAnswer": sometimes,
        "badGateway": {**sometimes, "worked": rng.random() < 0.5},
        "serverError": {**sometimes, "worked": rng.random() < 0.5},
        "rateLimited": {"probability": 0.05, "retryAfter": 15},
        "startWithoutUuid": often,
        "phantomUuid": often,
        "hangQueued": often,
        "hangInProgress": often,
        "exceedsBuildLimit": sometimes,
        "duplicateVariable": sometimes,
        "oldStatus": {"seconds": rng.choice((20, 60)), **sometimes},
        "crashLoop": {"seconds": rng.choice((5, 30)), "times": 1},
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
            "status": rng.choice(("degraded:unhealthy", "paused:unknown", "exited:unhealthy")),
            **often,
        },
        "deploymentsAsObject": True,
        "serverUnreachable": True,
        "restartCoolify": True,
        "missingAbility": {"ability": rng.choice(("deploy", "write", "read"))},
        "tokenExpired": True,
    }
    chosen = rng.sample(sorted(kinds), rng.randint(1, 4))
    return {name: kinds[name] for name in chosen}


async def run_simulation(url: str, seed: int) -> None:
    rng = random.Random(seed)
    pools = [coolify_pool(rng.randint(1, 2))]
    if rng.random() < 0.4:
        image = rng.choice(("acme/bot:1", "acme/bot:2"))
        pools.append(coolify_pool(1, TEAMS, image))
    async with CoolifySimulation.start(
        url,
        *pools,
        seed=seed,
        emulator_config=FAST_COOLIFY,
        replicas=rng.randint(1, 2),
        call_s=rng.choice((5, 20, 60)),
        policy=FAST_POLICY,
        status_lag_s=FAST_STATUS_LAG_S,
    ) as simulation:
        foreign = add_foreign_applications(simulation.coolify)
        before = snapshot(simulation.coolify, foreign)
        admitted = []
        faults_at = {rng.uniform(0, 40): random_faults(rng) for _ in range(rng.randint(1, 2))}
        crashes = any("crashLoop" in faults for faults in faults_at.values())
        while simulation.now < FAULTS_UNTIL_S:
            if simulation.now < 70 and rng.random() < 0.15:
                pool_name = rng.choice(pools).pool_name
                admitted += await simulation.admit(rng.randint(1, 2), pool_name)
            if admitted and rng.random() < 0.02:
                await simulation.replica.bot_stopper.stop(rng.choice(admitted))
            if rng.random() < 0.03:
                transport = rng.choice(simulation.replicas).transport
                transport.crashes_in, transport.crashes_before_request = (
                    rng.randint(1, 8),
                    rng.random() < 0.5,
                )
            for at in [at for at in faults_at if at <= simulation.now]:
                simulation.coolify.set_faults(faults_at.pop(at))
            await simulation.tick(rng.choice((1, 5, 10)))
        simulation.coolify.set_faults({"clear": True})
        await simulation.run_until(simulation.all_ended, within_s=SETTLE_WITHIN_S, tick_s=10)
        # Recovery stops a container that a stop did not reach.
        await simulation.run_until(lambda: not simulation.bots.running, within_s=1000, tick_s=15)
        await simulation.run_until(simulation.all_ended, within_s=1000, tick_s=15)
        await simulation.run_until(simulation.has_no_leftovers, within_s=1000, tick_s=15)
        assert_consistent_end(simulation, restarts=crashes)
        assert snapshot(simulation.coolify, foreign) == before


@pytest.fixture
def new_database(postgres: TestPostgres, template: str) -> Iterator[Any]:
    """Create a database for each simulation, and drop it after a success."""
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
    one = metafunc.config.getoption("--simulation-seed")
    wanted = metafunc.config.getoption("--simulations")
    if one is not None:
        batches = [range(one, one + 1)]
    else:
        batches = [
            range(n, min(n + SEEDS_PER_TEST, wanted)) for n in range(0, wanted, SEEDS_PER_TEST)
        ]
    seeds = [pytest.param(batch, id=f"{batch.start}-{batch.stop - 1}") for batch in batches]
    if one is None and wanted == SIMULATIONS:
        more = range(wanted, long_or_soak(4, 20) * wanted)
        seeds.append(pytest.param(more, id="more seeds", marks=LONG))
    metafunc.parametrize("seeds", seeds)


async def test_random_faults_lose_no_bot_and_leave_nothing_behind(
    new_database: Any, seeds: range
) -> None:
    for seed in seeds:
        try:
            await run_simulation(new_database(), seed)
        except BaseException as error:
            error.add_note(f"reproduce with: pytest tests/simulation --simulation-seed {seed}")
            raise
