"""Connections to the database are reset, at random moments and while bots start and end."""

import asyncio
from pathlib import Path

import pytest

from tests.faults.faulty_installation import faulty_installation
from tests.support.postgres import TestPostgres


@pytest.mark.timeout(600)
async def test_cut_connections_end_no_bot(
    postgres: TestPostgres, tmp_path: Path, seed: int
) -> None:
    async with faulty_installation(postgres, tmp_path, seed=seed) as installed:
        await installed.send(3)
        sending = asyncio.create_task(installed.send(3))
        for _ in range(6):
            await asyncio.sleep(installed.rng.uniform(0.1, 1.0))
            installed.rng.choice(installed.replicas).database.cut()
        await sending
        await installed.finish()
