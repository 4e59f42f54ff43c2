"""What the backend must be told about a Docker daemon."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class DockerConfig:
    installation_id: str
    folder: Path
    """Where pulls on this machine keep out of each other's way."""
    host: str | None = None
    """As in `DOCKER_HOST`; without it, by the client's own conventions."""
    network: str = "bridge"
    pids_limit: int = 2_048
    shm_mb: int = 512
    stop_grace_s: int = 5

    @property
    def image_host(self) -> str:
        """The daemon, as it is called here: its images are what was pulled once."""
        return self.host or os.environ.get("DOCKER_HOST") or "local"
