"""A thousand pods in one pool, simulated by KWOK on a real API server.

The test prints its figures: `pytest -s -m long tests/kubernetes/test_scale.py`.
`BOTPOOL_TEST_PODS` chooses another number of pods; 5000 need an otherwise idle machine.
"""

import asyncio
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from botpool.store.migrator import migrate
from tests.support.kubernetes import OwnCluster, own_cluster
from tests.support.kubernetes.simulated_nodes import LABEL, TAINT, simulated_nodes
from tests.support.postgres import TestPostgres
from tests.support.server import Installation, Server, none_left

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.timeout(2_400)]

PODS = int(os.environ.get("BOTPOOL_TEST_PODS", "1000"))
BURST = PODS // 10
NODES = 10
NAMESPACE = "default"
OBSERVE_S = 5
PAGE = 500
"""Botpool lists pods in pages of this size."""


@pytest.fixture
def cluster() -> Iterator[OwnCluster]:
    with own_cluster() as cluster, simulated_nodes(cluster, NODES):
        yield cluster


async def test_many_pods_in_one_pool(
    cluster: OwnCluster, postgres: TestPostgres, tmp_path: Path
) -> None:
    url = postgres.create_database()
    migrate(url)
    # The default namespace: the cluster ends with the test, and so do its pods.
    installed = Installation(database_url=url, data_dir=tmp_path, settings=settings_of(cluster))
    installed.insert_api_key()
    server = await installed.serve()
    try:
        empty_mb = memory_mb(server)
        filled_s = await start(installed, server, PODS - BURST)
        burst_s = await start(installed, server, BURST)
        full_mb = memory_mb(server)
        lists = await requests_per_observation(cluster)
    finally:
        server.kill()
    pods = len(cluster.pods(NAMESPACE))
    postgres.drop_database(url)
    print(  # noqa: T201
        f"\n{PODS} pods in one pool: first {PODS - BURST} in {filled_s:.0f} s, {BURST} more at "
        f"once in {burst_s:.1f} s; memory {empty_mb:.0f} MB without pods, {full_mb:.0f} MB with "
        f"them; {lists:.1f} LIST requests per observation, in pages of {PAGE}"
    )
    assert pods == PODS
    assert lists <= PODS / PAGE + 1
    assert full_mb < empty_mb + 400


def settings_of(cluster: OwnCluster) -> dict[str, str]:
    pool = "pools.google-meet"
    backend = "backends.kubernetes"
    return {
        "installation.id": "scale",
        "server.public_url": "http://127.0.0.1:1",
        "deploy.poll_interval_s": str(OBSERVE_S),
        "queue.max_length": "20000",
        "queue.default_timeout_ms": "600000",
        "limits.posts_per_minute": "100000",
        "limits.posts_burst": "100000",
        "limits.requests_per_minute": "100000",
        "limits.requests_burst": "100000",
        f"{backend}.kubeconfig": str(cluster.kubeconfig),
        f"{backend}.namespace": NAMESPACE,
        f"{backend}.node_selector": f'{{"{LABEL}": "true"}}',
        f"{backend}.tolerations": TAINT,
        f"{backend}.requests_per_second": "2000",
        f"{pool}.backend": "kubernetes",
        f"{pool}.image": "registry.example.org/bot:1",
        f"{pool}.max_size": str(PODS),
        f"{pool}.protocol": "none",
        f"{pool}.outcome": "exit-code",
        f"{pool}.cpus": "0.01",
        f"{pool}.memory_mb": "16",
    }


async def start(installed: Installation, server: Server, count: int) -> float:
    """Request bots, wait until all of them run, and return the time in seconds."""
    began = time.monotonic()
    running = busy_slots(installed)
    places = asyncio.Semaphore(50)
    body = {"meetingUrl": "https://meet.google.com/abc-defg-hij"}

    async def send() -> None:
        async with places:
            response = await user.post("/v1/bots", json=body)
            assert response.status_code == 201, response.text

    async with installed.client(server) as user:
        await asyncio.gather(*(send() for _ in range(count)))

    async def missing() -> range:
        return range(busy_slots(installed), running + count)

    await none_left("bots that do not run", missing, within_s=1_500, every_s=0.5)
    return time.monotonic() - began


def busy_slots(installed: Installation) -> int:
    ((count,),) = installed.rows("SELECT count(*) FROM bot_pool_slots WHERE status = 'busy'")
    return int(count)


def memory_mb(server: Server) -> float:
    return float(psutil.Process(server.process.pid).memory_info().rss) / 1024**2


async def requests_per_observation(cluster: OwnCluster) -> float:
    """Count the API server's LIST requests for pods of one namespace over some observations."""
    before, began = list_requests(cluster), time.monotonic()
    await asyncio.sleep(6 * OBSERVE_S)
    observations = (time.monotonic() - began) / OBSERVE_S
    return (list_requests(cluster) - before) / observations


def list_requests(cluster: OwnCluster) -> float:
    metrics = cluster.kubectl.request("GET", "/metrics")
    lines = re.findall(r"^apiserver_request_total\{([^}]*)\} (\S+)$", metrics, re.MULTILINE)
    wanted = ('resource="pods"', 'verb="LIST"', 'scope="namespace"', 'subresource=""')
    return sum(float(value) for labels, value in lines if all(each in labels for each in wanted))
