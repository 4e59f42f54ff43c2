"""Configuration of the Docker backend."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerConfig:
    installation_id: str
    folder: Path
    """Holds the lock files of pulls on this machine."""
    host: str | None = None
    """In the format of `DOCKER_HOST`; None uses the conventions of Docker's client."""
    network: str = "bridge"
    pids_limit: int = 2_048
    shm_mb: int = 512
    stop_grace_s: int = 5

    @property
    def image_host(self) -> str:
        """The daemon, which keeps the pulled images."""
        return self.host or os.environ.get("DOCKER_HOST") or "local"
