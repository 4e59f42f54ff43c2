"""Connections to the database stall or are lost without a reset, while bots send heartbeats."""

import asyncio
from pathlib import Path

import pytest

from tests.faults.faulty_installation import FRESHNESS_S, FaultyInstallation, faulty_installation
from tests.support.postgres import TestPostgres
from tests.support.server import none_left

FAULT_S = 2 * FRESHNESS_S


@pytest.mark.timeout(600)
async def test_half_open_connections_end_no_bot(
    postgres: TestPostgres, tmp_path: Path, seed: int
) -> None:
    """Every open connection of every replica is lost, again and again; new connections work."""
    async with faulty_installation(postgres, tmp_path, seed=seed) as installed:
        await installed.send(3)
        ends_at = asyncio.get_running_loop().time() + FAULT_S
        while asyncio.get_running_loop().time() < ends_at:
            for replica in installed.replicas:
                replica.database.lose_connections()
            await asyncio.sleep(installed.rng.uniform(0.5, 3.0))
        await installed.send(2)
        await installed.finish()


@pytest.mark.timeout(600)
async def test_replica_cut_off_from_the_database_ends_no_bot(
    postgres: TestPostgres, tmp_path: Path, seed: int
) -> None:
    """One replica gets no answers; the other one judges the silence of the bots."""
    async with faulty_installation(postgres, tmp_path, seed=seed) as installed:
        await installed.send(4)
        cut_off = installed.rng.choice(installed.replicas)
        cut_off.database.stall()
        problem = await cut_off.wait_until_not_ready()
        assert problem
        await asyncio.sleep(FAULT_S)
        assert installed.endings() == []
        cut_off.database.resume()
        await installed.finish()


@pytest.mark.timeout(600)
async def test_stalled_database_ends_no_bot(
    postgres: TestPostgres, tmp_path: Path, seed: int
) -> None:
    """No replica gets answers, for longer than bots may be silent."""
    async with faulty_installation(postgres, tmp_path, seed=seed) as installed:
        await installed.send(4)
        for replica in installed.replicas:
            replica.database.stall()
        for replica in installed.replicas:
            await replica.wait_until_not_ready()
        await asyncio.sleep(FAULT_S)
        for replica in installed.replicas:
            replica.database.resume()
        await installed.send(2)
        await stay_silent_for(installed, FRESHNESS_S)
        await installed.finish()


async def stay_silent_for(installed: FaultyInstallation, seconds: float) -> None:
    """Check for some time after the fault that recovery fails no bot."""
    await asyncio.sleep(seconds)

    async def endings() -> list[object]:
        return [*installed.endings()]

    await none_left("bots that a late recovery pass ended", endings, within_s=0)
