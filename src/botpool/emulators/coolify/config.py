"""Identity, limits and timing of the emulated Coolify while no fault is set."""

from collections.abc import Mapping
from dataclasses import dataclass, field

VERSION = "4.3.11"
Duration = float | tuple[float, float]
"""Emulated seconds, or the bounds of a uniform distribution."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatorConfig:
    """Identity, limits and timing."""

    version: str = VERSION
    token: str = "1|emulated"  # noqa: S105 - only the emulator accepts this token
    project: str = "emulated-project"
    server: str = "emulated-server"
    environment: str = "production"
    destinations: tuple[str, ...] = ("emulated-destination",)
    shared_variables: Mapping[str, str] = field(
        default_factory=lambda: {
            f"{scope}.SECRET": f"secret of the {scope}"
            for scope in ("team", "project", "environment")
        }
    )
    """What Coolify puts in the place of `{{team.SECRET}}` in a variable's value."""

    first_start_s: float = 420.0
    """From the call to the container, including the pull of the image."""
    start_s: Duration = 29.0
    """From a worker's first command to the container, with the image on the server's disk."""
    pick_up_s: Duration = 1.0
    """Until a free worker takes a job."""
    finish_s: float = 2.0
    """From the container to the deployment status `finished`."""
    failure_s: float = 5.0
    """Until an impossible deployment fails."""
    stop_s: tuple[float, float] = (1.0, 30.0)
    delete_s: tuple[float, float] = (2.0, 10.0)
    status_lag_s: tuple[float, float] = (0.0, 60.0)
    health_lag_s: tuple[float, float] = (0.0, 360.0)

    concurrent_builds: int = 2
    queue_limit: int = 25
    workers: int = 4
    requests_per_minute: int = 200

    @property
    def pull_s(self) -> float:
        """How long the first pull of an image takes."""
        later_s = max(self.start_s) if isinstance(self.start_s, tuple) else self.start_s
        return max(self.first_start_s - later_s - 1.0, 0.0)
