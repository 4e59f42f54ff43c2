"""Observations of containers, in states that all backends share."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId


class ContainerState(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    EXITED = "exited"
    """The container ran and ended; on some backends also: it has not run yet."""
    STOPPED = "stopped"
    """The container was stopped, or never started since its creation."""
    RESTARTING = "restarting"
    """The container exited, and the backend starts it again."""
    ERROR = "error"
    DEGRADED = "degraded"
    GONE = "gone"
    """The backend answered that the container does not exist."""
    UNKNOWN = "unknown"
    """The answer of the backend is no evidence: server unreachable, unknown status."""


class DeploymentState(StrEnum):
    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"
    ISSUED = "issued"
    """The start was sent; the backend has not reported its deployment yet."""
    LOST = "lost"
    """The backend does not know the deployment."""


ACTIVE_DEPLOYMENT = frozenset({DeploymentState.QUEUED, DeploymentState.IN_PROGRESS})
OPEN_DEPLOYMENT = ACTIVE_DEPLOYMENT | {DeploymentState.ISSUED}
"""Statuses after which a deployment can change to another one."""
FAILED_DEPLOYMENT = frozenset({DeploymentState.FAILED, DeploymentState.CANCELLED})
ENDED_STATES = frozenset({ContainerState.EXITED, ContainerState.STOPPED, ContainerState.GONE})


@dataclass(frozen=True, slots=True, kw_only=True)
class UnreachableNode:
    """A node that does not report: its containers may run or not."""

    name: str
    since: datetime
    """When the node stopped reporting, by the backend's clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One observation of one container."""

    container_id: ContainerId
    state: ContainerState
    assignment_id: AssignmentId | None = None
    """The assignment of the run, where the backend knows it. An older one is no evidence."""
    deployment_id: DeploymentId | None = None
    deployment: DeploymentState | None = None
    """State of the deployment of this assignment's start, where the backend has deployments."""
    status_unreliable: bool = False
    """The backend does not reach its server, so none of its statuses is evidence."""
    unknown_status: str | None = None
    """The backend's own status if Botpool does not know it; the state is then UNKNOWN."""
    exit_code: int | None = None
    detail: str = ""
    """The backend's own text, for people."""
    unreachable_node: UnreachableNode | None = None
    """The node that keeps a stop from being confirmed. While the bot runs it has no effect."""
    infrastructure_fault: str = ""
    """Why the infrastructure ended the run, in words: "the node evicted the pod: low on memory".

    Empty if the program ended by itself or by a stop of Botpool. It counts with a state of
    `ENDED_STATES`, and outweighs the exit code: a program may exit with 0 when it is evicted.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedRun:
    """The run that a slot's container should have, as far as the database knows it."""

    assignment_id: AssignmentId
    deployment_id: DeploymentId | None = None
    """The deployment that was recorded for the run. A backend that does not know this deployment
    any more, and never reported its end, answers UNKNOWN and not GONE."""
    is_protected: bool | None = None
    """Whether the bot joins its call or is in it; None before that. A backend that can protect such
    a run from its own maintenance does so when it observes the run, and ends the protection
    likewise. None changes nothing: the bot may have joined after the slot was read."""
