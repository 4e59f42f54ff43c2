"""How this Coolify is when nothing is wrong: its identity, its limits and how long things take."""

from dataclasses import dataclass

VERSION = "4.3.2"
OLD_VERSION = "4.1.2"
"""Before 4.2 a start was also accepted as GET."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Nature:
    """Durations in emulated seconds; pairs are the bounds of an even distribution."""

    token: str = "1|emulated"  # noqa: S105 - it opens nothing but the emulator
    project: str = "emulated-project"
    server: str = "emulated-server"
    environment: str = "production"
    destinations: tuple[str, ...] = ("emulated-destination",)

    first_start_s: float = 420.0
    """From the call to the container, with the image still to be pulled."""
    start_s: float = 30.0
    """The same, with the image on the server's disk."""
    pick_up_s: float = 1.0
    """Until a worker takes a job, if one is free."""
    finish_s: float = 2.0
    """From the container to `finished`."""
    failure_s: float = 5.0
    """Until a deployment that cannot work has failed."""
    stop_s: tuple[float, float] = (1.0, 30.0)
    delete_s: tuple[float, float] = (2.0, 10.0)
    status_lag_s: tuple[float, float] = (0.0, 60.0)
    health_lag_s: tuple[float, float] = (0.0, 360.0)

    concurrent_builds: int = 2
    queue_limit: int = 25
    workers: int = 4
    requests_per_minute: int = 200
