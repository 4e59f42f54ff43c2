"""What a backend shows of a container, in words that all backends share."""

from dataclasses import dataclass
from enum import StrEnum

from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId


class ContainerState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"
    """Ran and ended, or (where a platform cannot tell) has not run yet."""
    STOPPED = "stopped"
    """Was stopped, or was never started since it was made."""
    ERROR = "error"
    DEGRADED = "degraded"
    GONE = "gone"
    """The platform says that it does not exist."""
    UNKNOWN = "unknown"
    """The platform answered, but its answer is no evidence (server unreachable, odd status)."""


class DeploymentState(StrEnum):
    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


UNDER_WAY = frozenset({DeploymentState.QUEUED, DeploymentState.IN_PROGRESS})
BROKEN_OFF = frozenset({DeploymentState.FAILED, DeploymentState.CANCELLED})
DOWN = frozenset({ContainerState.EXITED, ContainerState.STOPPED, ContainerState.GONE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One look at one container."""

    container_id: ContainerId
    state: ContainerState
    assignment_id: AssignmentId | None = None
    """Whose run this is, where the backend can tell. An older one is the state of the past."""
    deployment_id: DeploymentId | None = None
    deployment: DeploymentState | None = None
    """State of the deployment of this assignment's start, where the backend has deployments."""
    is_blind: bool = False
    """The platform cannot see its own server: nothing that it shows of any container counts."""
    exit_code: int | None = None
    detail: str = ""
    """The platform's own words, for people."""
