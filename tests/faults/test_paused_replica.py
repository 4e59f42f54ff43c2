"""A replica paused with SIGSTOP beyond its lease ends no bot that another replica started."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.faults.paused_replica import CALLS, behind_load_balancer
from tests.support.coolify_installation import Coolify, coolify_installation
from tests.support.docker_installation import docker_installation, load_image, pool
from tests.support.dockerd import Dockerd
from tests.support.fixed_port_installation import FixedPortInstallation
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
