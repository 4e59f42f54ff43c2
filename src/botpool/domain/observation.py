"""What a backend shows of a container, in words that all backends share."""

from dataclasses import dataclass
from enum import StrEnum

from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId


class ContainerState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"
    """Ran and ended, or (where a backend cannot tell) has not run yet."""
    STOPPED = "stopped"
    """Was stopped, or was never started since it was made."""
    ERROR = "error"
    DEGRADED = "degraded"
    GONE = "gone"
    """The backend says that it does not exist."""
    UNKNOWN = "unknown"
    """The backend answered, but its answer is no evidence (server unreachable, odd status)."""


class DeploymentState(StrEnum):
    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


ACTIVE_DEPLOYMENT = frozenset({DeploymentState.QUEUED, DeploymentState.IN_PROGRESS})
FAILED_DEPLOYMENT = frozenset({DeploymentState.FAILED, DeploymentState.CANCELLED})
ENDED_STATES = frozenset({ContainerState.EXITED, ContainerState.STOPPED, ContainerState.GONE})


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
    status_unreliable: bool = False
    """The backend cannot see its own server: nothing that it shows of any container counts."""
    exit_code: int | None = None
    detail: str = ""
    """The backend's own words, for people."""
