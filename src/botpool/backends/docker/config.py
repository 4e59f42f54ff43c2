"""Configuration of the Docker backend."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolIsolation:
    """What the containers of one pool may do beyond the default."""

    capabilities: tuple[str, ...] = ()
    """The Linux capabilities that they keep."""
    read_only: bool = False
    """Whether their root file system is read-only, with a `/tmp` in memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerConfig:
    installation_id: str
    folder: Path
    """Holds the lock files of pulls on this machine."""
    host: str | None = None
    """In the format of `DOCKER_HOST`; None uses the conventions of Docker's client."""
    network: str | None = None
    """The network of all containers; None gives each pool a network of its own."""
    isolation: Mapping[str, PoolIsolation] = field(default_factory=dict)
    """By pool name. A pool that is not listed gets the strictest isolation."""
    log_mb: int = 50
    tmp_mb: int = 256
    pids_limit: int = 2_048
    shm_mb: int = 512
    stop_grace_s: int = 5

    @property
    def image_host(self) -> str:
        """The daemon, which keeps the pulled images."""
        return self.host or os.environ.get("DOCKER_HOST") or "local"
