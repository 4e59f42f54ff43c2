"""An installation on a real Docker daemon: `botpool serve`, containers, agents, a registry."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.bot_image import PYTHON, archive
from tests.support.docker_host import publish
from tests.support.dockerd import Dockerd
from tests.support.fixed_port_installation import (
    FixedPortInstallation,
)
from tests.support.ports import free_port
from tests.support.registry import Registry

BOT = Path(__file__).with_name("docker_bot.py")


@dataclass(slots=True, kw_only=True)
class DockerInstallation(FixedPortInstallation):
    dockerd: Dockerd
    installation_id: str

    def containers(self) -> list[dict[str, Any]]:
        """Return all containers of this installation."""
        return self.dockerd.containers(installation=self.installation_id)

    def running(self) -> set[str]:
        found = [each for each in self.containers() if each["State"] == "running"]
        return {name.lstrip("/") for each in found for name in each["Names"]}

    async def clear(self) -> None:
        for server in self.servers:
            server.kill()
        if self.dockerd.is_ready():
            self.dockerd.remove_containers(installation=self.installation_id)


@asynccontextmanager
async def docker_installation(
    dockerd: Dockerd, database_url: str, data_dir: Path, **settings: str
) -> AsyncIterator[DockerInstallation]:
    """Create an installation without replicas.

    The interval of observations is the default, so tests rely on the daemon's events.
    """
    port = free_port()
    installation_id = f"docker-{secrets.token_hex(4)}"
    installed = DockerInstallation(
        database_url=database_url,
        data_dir=data_dir,
        port=port,
        dockerd=dockerd,
        installation_id=installation_id,
        settings={
            "installation.id": installation_id,
            "server.public_url": f"http://127.0.0.1:{port}",
            "backends.docker.host": dockerd.host,
            "backends.docker.network": "host",
            "backends.docker.shm_mb": "16",
            "agent.heartbeat_interval_ms": "500",
            **settings,
        },
    )
    installed.insert_api_key()
    try:
        yield installed
    finally:
        await installed.clear()


def pool(pool_name: str, image: str, max_size: int, **more: object) -> dict[str, str]:
    """Return the settings of one pool."""
    fields = {"backend": "docker", "image": image, "max_size": max_size, **more}
    return {f"pools.{pool_name}.{name}": str(value) for name, value in fields.items()}


def load_image(dockerd: Dockerd) -> str:
    """Load a bot's image into the daemon and return its name."""
    files = {"/bot/bot.py": BOT.read_bytes()}
    dockerd.load(archive(["demo:1"], [PYTHON, "/bot/bot.py"], files))
    return "demo:1"


def publish_image(
    dockerd: Dockerd, registry: Registry, *, mb: int = 4, tag: str | None = None
) -> str:
    """Push a bot's image that only the registry has, and return its name."""
    return publish(dockerd, registry, tag or secrets.token_hex(4), BOT, mb=mb)
