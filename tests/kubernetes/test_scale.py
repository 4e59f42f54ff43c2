"""Five thousand pods in one pool, simulated by KWOK on a real API server.

The test prints its figures: `pytest -s -m long tests/kubernetes/test_scale.py`.
`BOTPOOL_TEST_PODS` chooses another number of pods.
"""

import asyncio
import math
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from botpool.store.migrator import migrate
from tests.support.kubernetes import OwnCluster, own_cluster
from tests.support.kubernetes.simulated_nodes import LABEL, TAINT, simulated_nodes
from tests.support.postgres import TestPostgres
from tests.support.server import Installation, Server, none_left

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.timeout(5_400)]

PODS = int(os.environ.get("BOTPOOL_TEST_PODS", "5000"))
BURST = min(500, PODS // 2)
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
        load = os.getloadavg()[0]
        lists, observed_s = await count_observations(cluster, installed, server)
    finally:
        server.kill()
    pods = len(cluster.pods(NAMESPACE))
    postgres.drop_database(url)
    print(  # noqa: T201
        f"\n{PODS} pods in one pool: first {PODS - BURST} in {filled_s:.0f} s, {BURST} more at "
        f"once in {burst_s:.1f} s; memory {empty_mb:.0f} MB without pods, {full_mb:.0f} MB with "
        f"them; an observation takes {lists:.1f} LIST requests of {PAGE} pods and "
        f"{observed_s:.1f} s; "
        f"load average {load:.0f}"
    )
    assert pods == PODS
    # One observation more or less may be under way at the ends of the time.
    assert lists <= 1.5 * math.ceil(PODS / PAGE)
    assert full_mb < empty_mb + 400


def settings_of(cluster: OwnCluster) -> dict[str, str]:
    pool = "pools.google-meet"
    backend = "backends.kubernetes"
    return {
        "installation.id": "scale",
        "server.public_url": "http://127.0.0.1:1",
        "deploy.poll_interval_s": str(OBSERVE_S),
        "queue.max_length": "20000",
        "queue.max_timeout_ms": "3600000",
        "queue.default_timeout_ms": "3600000",
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

    await none_left("bots that do not run", missing, within_s=2_400, every_s=0.5)
    return time.monotonic() - began


def busy_slots(installed: Installation) -> int:
    ((count,),) = installed.rows("SELECT count(*) FROM bot_pool_slots WHERE status = 'busy'")
    return int(count)


def memory_mb(server: Server) -> float:
    return float(psutil.Process(server.process.pid).memory_info().rss) / 1024**2


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What Botpool's and the API server's metrics have counted."""

    lists: float
    observations: float
    observed_s: float


async def count_observations(
    cluster: OwnCluster, installed: Installation, server: Server
) -> tuple[float, float]:
    """Return the LIST requests of one observation of the whole pool, and its seconds."""
    before = await counts(cluster, installed, server)
    await asyncio.sleep(60)
    after = await counts(cluster, installed, server)
    observations = after.observations - before.observations
    assert observations >= 1, "no observation ended"
    lists = (after.lists - before.lists) / observations
    return lists, (after.observed_s - before.observed_s) / observations


async def counts(cluster: OwnCluster, installed: Installation, server: Server) -> Counts:
    """Read the counters. Running pods of this pool are observed only all together."""
    async with installed.client(server) as user:
        own = (await user.get("/metrics")).text
    listed = cluster.kubectl.request("GET", "/metrics")
    pods = ('resource="pods"', 'verb="LIST"', 'scope="namespace"', 'subresource=""')
    seconds = "botpool_backend_call_seconds"
    return Counts(
        lists=total(listed, "apiserver_request_total", *pods),
        observations=total(own, f"{seconds}_count", 'call="observe"'),
        observed_s=total(own, f"{seconds}_sum", 'call="observe"'),
    )


def total(metrics: str, name: str, *labels: str) -> float:
    """Return the sum of a metric over all series with these labels."""
    series = re.findall(rf"^{name}\{{([^}}]*)\}} (\S+)$", metrics, re.MULTILINE)
    return sum(float(value) for own, value in series if all(each in own for each in labels))
