"""The records of the emulated Coolify: applications, variables, deployments and containers.

The records are mutable: they stand for the rows of Coolify's database.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

EXITED = "exited:unhealthy"
_MAX_RESTART_COUNT = 10
_STOP_GRACE_S = 30.0
_EPOCH = datetime(2026, 8, 1, tzinfo=UTC)


def timestamp(emulated_s: float) -> str:
    """Format a time like Laravel, counted from a fixed date so that responses are reproducible."""
    moment = _EPOCH + timedelta(seconds=emulated_s)
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def epoch_seconds(emulated_s: float) -> int:
    return int(_EPOCH.timestamp() + emulated_s)


class DeploymentStatus(StrEnum):
    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled-by-user"

    @property
    def is_open(self) -> bool:
        return self in (DeploymentStatus.QUEUED, DeploymentStatus.IN_PROGRESS)


class ContainerState(StrEnum):
    RUNNING = "running"
    RESTARTING = "restarting"
    GONE = "gone"


@dataclass(slots=True, kw_only=True)
class Variable:
    uuid: str
    key: str
    value: str | None
    is_preview: bool
    is_literal: bool
    is_multiline: bool
    is_shown_once: bool
    created_at: float
    updated_at: float


@dataclass(slots=True, kw_only=True, eq=False)
class Application:
    uuid: str
    name: str
    description: str | None
    image: str
    tag: str
    fqdn: str | None = None
    tags: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    """All other fields that clients wrote, unchanged."""
    variables: list[Variable] = field(default_factory=list)
    containers: list["Container"] = field(default_factory=list)
    deployments: list["Deployment"] = field(default_factory=list)
    status: str = EXITED
    """The status that the API reports; `containers` holds the real state."""
    falsely_stopped: bool = False
    """The fault `stopLies` reports a stop that never happened."""
    deleted: bool = False
    created_at: float
    updated_at: float

    @property
    def image_and_tag(self) -> str:
        return f"{self.image}:{self.tag}"

    @property
    def running(self) -> bool:
        return any(c.state is ContainerState.RUNNING for c in self.containers)

    @property
    def open_deployment(self) -> "Deployment | None":
        """The newest deployment, while it is queued or in progress."""
        newest = self.deployments[-1] if self.deployments else None
        return newest if newest and newest.status.is_open else None

    @property
    def stop_grace_s(self) -> float:
        """Docker kills a container that has not ended so long after SIGTERM."""
        return float(self.settings.get("stop_grace_period") or _STOP_GRACE_S)

    @property
    def max_restart_count(self) -> int:
        """After so many restarts Coolify stops the application; 0 means never."""
        return int(self.settings.get("max_restart_count", _MAX_RESTART_COUNT))

    @property
    def stops_old_container_first(self) -> bool:
        """Whether a deployment stops the old container before it starts the new one."""
        consistent = self.settings.get("is_consistent_container_name_enabled")
        return bool(consistent or self.settings.get("ports_mappings"))


@dataclass(slots=True, kw_only=True, eq=False)
class Deployment:
    uuid: str
    application: Application
    status: DeploymentStatus = DeploymentStatus.QUEUED
    hung: bool = False
    """Stays in the queue or in progress until it is cancelled."""
    dispatched: bool = False
    has_worker: bool = False
    unstoppable: bool = False
    """The deployment starts its container although it was cancelled."""
    environment: dict[str, str] = field(default_factory=dict)
    created_at: float
    updated_at: float


@dataclass(slots=True, kw_only=True, eq=False)
class Container:
    application: Application
    environment: dict[str, str]
    handle: Hashable
    started_at: float
    backoff_s: float
    """The pause before the next restart."""
    state: ContainerState = ContainerState.RUNNING
    stopping: bool = False
    """Docker does not restart a container that was stopped."""
    crashes_after_s: float | None = None
    health: str = "unknown"
    published: bool = False
    """Statuses ignore the container until its deployment has ended."""
    restarts: int = 0
