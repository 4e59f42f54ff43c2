"""Statements about deployments: the container, the start and its outcome."""

from dataclasses import dataclass
from datetime import datetime
from typing import Unpack

from botpool.domain.fenced_slots import Fence
from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId, PoolName
from botpool.domain.observation import DeploymentState
from botpool.domain.slots import SlotChange
from botpool.domain.states import FailureCode, SlotPhase
from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedContainer:
    """The phase of a slot whose container exists, and the phase before."""

    version: int
    lease_until: datetime
    phase: SlotPhase
    from_phase: SlotPhase
    from_phase_s: float
    """How long the slot was in the phase before."""
    former_id: ContainerId | None
    """The slot's container before this one, if it had one."""
    was_gone: bool
    """Whether the former container was already known to be gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSlot(SlotChange):
    """A slot whose container runs."""

    backend: str
    pool_name: PoolName
    warm: bool
    """Whether the slot had a container when the bot got it."""
    run_id: AssignmentId
    deployment_id: DeploymentId | None
    deployment_status: DeploymentState | None
    """The status of the deployment as last logged."""
    deploying_s: float
    starting_s: float | None
    others_wait: bool
    """Whether other slots of the backend wait at the image gate."""
    late_s: float | None
    """How long after its join time a scheduled bot joins; None if it waits or is not scheduled."""
    on_time_probability: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedDeployment(SlotChange):
    """A slot whose deployment failed."""

    backend: str
    others_wait: bool
    """Whether other slots of the backend wait at the image gate."""


@query
def record_container(
    *,
    container_id: ContainerId,
    image_host: str,
    image: str,
    limits: str,
    image_known_s: float,
    starts_limited: bool,
    wait_timeout_s: float,
    lease_s: float,
    reason: str,
    **fence: Unpack[Fence],
) -> RecordedContainer | None:
    """Store the id of a deploying slot's container and choose the slot's next phase."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedStart:
    """A slot whose start was prepared, under a renewed lease."""

    version: int
    lease_until: datetime


@query
def record_prepared_start(
    *, deployment_id: DeploymentId, lease_s: float, **fence: Unpack[Fence]
) -> PreparedStart | None:
    """Record what a backend prepared for a start; None if the slot has changed."""


@query
def list_known_deployments(*, backend: str) -> list[DeploymentId]:
    """List the runs of a backend that slots have."""


@query
def record_start(
    *, deployment_id: DeploymentId | None, timeout_s: float, **fence: Unpack[Fence]
) -> int | None:
    """Record that the start was issued; returns the slot's version."""


@query
def mark_running(
    *,
    assignment_id: AssignmentId,
    version: int | None,
    max_duration_s: float,
    image_fresh_s: float,
    by_agent: bool,
    healed: bool = False,
    reason: str,
) -> RunningSlot | None:
    """Make a deploying slot busy because its container runs; its bot joins the call.

    `healed`: a recovery pass corrects the slot, which counts as used now.
    """


@query
def end_deployment(**fence: Unpack[Fence]) -> int | None:
    """Record that the deployment of a start finished; returns the slot's version."""


@query
def record_deployment_status(
    *, deployment_status: DeploymentState, **fence: Unpack[Fence]
) -> int | None:
    """Record a new status of a start's deployment; returns the slot's version."""


@query
def fail_deployment(
    *,
    deployment_over: bool = False,
    nothing_started: bool = False,
    stuck: bool = False,
    infrastructure_fault: bool = False,
    reason: str,
    failure_code: FailureCode = FailureCode.DEPLOY_FAILED,
    **fence: Unpack[Fence],
) -> FailedDeployment | None:
    """Give up a deployment and start the release of its slot.

    The bot gets `failure_code` if it has no attempts left. The reset after a stuck deployment
    creates the container again.
    """
