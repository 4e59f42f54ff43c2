"""The network drops packets between a replica and the database, without a reset."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.faulty_installation import FRESHNESS_S, faulty_installation
from tests.faults.network_namespace import NetworkNamespace, network_namespace
from tests.support.postgres import TestPostgres

FAULT_S = 2 * FRESHNESS_S


@pytest.fixture
def namespace() -> Iterator[NetworkNamespace]:
    with network_namespace() as namespace:
        yield namespace


@pytest.mark.timeout(600)
async def test_dropped_packets_end_no_bot(
    postgres: TestPostgres, namespace: NetworkNamespace, tmp_path: Path, seed: int
) -> None:
    async with faulty_installation(
        postgres, tmp_path, seed=seed, replicas=1, host=namespace.outside
    ) as installed:
        cut_off = await installed.add_replica(namespace)
        await installed.send(4)
        namespace.drop_packets(cut_off.database.port)
        await cut_off.wait_until_not_ready()
        await asyncio.sleep(FAULT_S)
        assert installed.endings() == []
        namespace.pass_packets()
        await installed.finish()


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_random_packet_loss_ends_no_bot(
    postgres: TestPostgres, namespace: NetworkNamespace, tmp_path: Path, seed: int
) -> None:
    """A third of all packets is lost, in several periods."""
    async with faulty_installation(
        postgres, tmp_path, seed=seed, replicas=1, host=namespace.outside
    ) as installed:
        lossy = await installed.add_replica(namespace)
        await installed.send(3)
        for _ in range(3):
            namespace.drop_packets(lossy.database.port, share=installed.rng.uniform(0.2, 0.5))
            await asyncio.sleep(installed.rng.uniform(0.5, 1.0) * FAULT_S)
            namespace.pass_packets()
            await installed.send(1)
        await installed.finish()
