"""A replica paused with SIGSTOP beyond its lease ends no bot that another replica started."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.faults.paused_replica import CALLS, KUBERNETES_CALLS, behind_load_balancer
from tests.support.coolify_installation import Coolify, coolify_installation
from tests.support.docker_installation import docker_installation, load_image, pool
from tests.support.dockerd import Dockerd
from tests.support.fixed_port_installation import FixedPortInstallation, wait_for
from tests.support.kubernetes import Cluster
from tests.support.kubernetes_installation import (
    KubernetesInstallation,
    kubernetes_installation,
)
from tests.support.kubernetes_installation import pool as kubernetes_pool
from tests.support.ports import free_port

SHORT = ("ensure", "stop")
calls = pytest.mark.parametrize(
    "call", [pytest.param(call, marks=() if call in SHORT else pytest.mark.long) for call in CALLS]
)
long_calls = pytest.mark.parametrize(
    "call",
    [pytest.param(call, marks=() if call == "ensure" else pytest.mark.long) for call in CALLS],
)
pytestmark = pytest.mark.timeout(900)


@asynccontextmanager
async def process_installation(
    database_url: str, data_dir: Path
) -> AsyncIterator[FixedPortInstallation]:
    installed = FixedPortInstallation(
        database_url=database_url,
        data_dir=data_dir,
        port=free_port(),
        settings={"agent.heartbeat_interval_ms": "500", "deploy.poll_interval_s": "1"},
    )
    installed.insert_api_key()
    try:
        yield installed
    finally:
        await installed.clear()


@calls
async def test_paused_replica_with_local_processes(
    database_url: str, tmp_path: Path, seed: int, call: str
) -> None:
    async with (
        process_installation(database_url, tmp_path) as installed,
        behind_load_balancer(installed, seed) as schedule,
    ):
        await schedule.run(call)
        assert installed.running() == set()


@long_calls
async def test_paused_replica_with_docker(
    dockerd: Dockerd, database_url: str, tmp_path: Path, seed: int, call: str
) -> None:
    settings = pool("google-meet", load_image(dockerd), 1)
    async with (
        docker_installation(dockerd, database_url, tmp_path, **settings) as installed,
        behind_load_balancer(installed, seed) as schedule,
    ):
        await schedule.run(call)
        assert installed.running() == set()


@long_calls
async def test_paused_replica_with_coolify(
    database_url: str, tmp_path: Path, seed: int, call: str
) -> None:
    async with (
        Coolify.emulated() as coolify,
        coolify_installation(coolify, database_url, tmp_path) as installed,
        behind_load_balancer(installed, seed) as schedule,
    ):
        await schedule.run(call)
        assert coolify.containers() == []


@pytest.mark.parametrize(
    "call",
    [pytest.param(c, marks=() if c == "start" else pytest.mark.long) for c in KUBERNETES_CALLS],
)
async def test_paused_replica_with_kubernetes(
    kubernetes: Cluster, database_url: str, tmp_path: Path, seed: int, call: str
) -> None:
    settings = kubernetes_pool("google-meet", 1, stop_grace_s=1)
    with kubernetes.namespace() as namespace:
        async with (
            kubernetes_installation(
                kubernetes, namespace, database_url, tmp_path, **settings
            ) as installed,
            behind_load_balancer(installed, seed) as schedule,
        ):
            await schedule.run(call)
            await wait_for("a namespace without Pods", lambda: has_no_pods(installed))


@pytest.mark.long
@pytest.mark.parametrize("call", ["prepare", "start"])
async def test_late_start_of_a_cancelled_bot_runs_nothing(
    kubernetes: Cluster, database_url: str, tmp_path: Path, seed: int, call: str
) -> None:
    settings = kubernetes_pool("google-meet", 1, stop_grace_s=1)
    with kubernetes.namespace() as namespace:
        async with (
            kubernetes_installation(
                kubernetes, namespace, database_url, tmp_path, **settings
            ) as installed,
            behind_load_balancer(installed, seed) as schedule,
        ):
            cancelled = await schedule.cancel_during(call)
            ((late,),) = installed.rows(f"SELECT id FROM assignments WHERE bot_id = {cancelled}")
            pods = installed.cluster.pods(namespace, f"botpool.dev/assignment={late}")
            assert not [pod for pod in pods if pod["spec"].get("nodeName")]


async def has_no_pods(installed: KubernetesInstallation) -> bool:
    return not installed.pods()
