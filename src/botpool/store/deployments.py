"""Statements about deployments: the container, the start and its outcome."""

from dataclasses import dataclass
from datetime import datetime

from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId, PoolName
from botpool.domain.records import FencedSlot, LeasedSlot, SlotChange
from botpool.domain.states import FailureCode, SlotPhase
from botpool.store.statement import Statement, column, record_of


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedContainer:
    """The phase of a slot whose container exists, and the phase before."""

    version: int
    lease_until: datetime
    phase: SlotPhase
    from_phase: SlotPhase
    from_phase_s: float
    """How long the slot was in the phase before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningSlot(SlotChange):
    """A slot whose container runs."""

    backend: str
    pool_name: PoolName
    warm: bool
    """Whether the slot had a container when the bot got it."""
    deploying_s: float
    starting_s: float | None
    others_wait: bool
    """Whether other slots of the backend wait at the image gate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedDeployment:
    """The version of a slot whose deployment finished, and its backend."""

    version: int
    backend: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedDeployment(SlotChange):
    """A slot whose deployment failed."""

    backend: str
    others_wait: bool
    """Whether other slots of the backend wait at the image gate."""


def record_container(
    slot: LeasedSlot,
    *,
    container_id: ContainerId,
    image_host: str,
    image_known_s: float,
    starts_limited: bool,
    wait_timeout_s: float,
    lease_s: float,
    reason: str,
) -> Statement[RecordedContainer]:
    """Store the id of a deploying slot's container and choose the slot's next phase."""
    parameters = {
        "slot_id": slot.slot_id,
        "assignment_id": slot.assignment_id,
        "version": slot.version,
        "container_id": container_id,
        "image_host": image_host,
        "image": slot.image,
        "limits": slot.limits,
        "image_known_s": image_known_s,
        "starts_limited": starts_limited,
        "wait_timeout_s": wait_timeout_s,
        "lease_s": lease_s,
        "reason": reason,
    }
    return Statement("record_container", parameters, record_of(RecordedContainer))


def record_start(
    slot: FencedSlot, *, deployment_id: DeploymentId | None, timeout_s: float
) -> Statement[int]:
    """Record that the start was issued; returns the slot's version."""
    parameters = {
        "slot_id": slot.slot_id,
        "assignment_id": slot.assignment_id,
        "version": slot.version,
        "deployment_id": deployment_id,
        "timeout_s": timeout_s,
    }
    return Statement("record_start", parameters, column("version", int))


def mark_running(
    assignment_id: AssignmentId,
    *,
    version: int | None,
    max_duration_s: float,
    image_fresh_s: float,
    by_agent: bool,
    reason: str,
) -> Statement[RunningSlot]:
    """Make a deploying slot busy because its container runs; its bot joins the call."""
    parameters = {
        "assignment_id": assignment_id,
        "version": version,
        "max_duration_s": max_duration_s,
        "image_fresh_s": image_fresh_s,
        "by_agent": by_agent,
        "reason": reason,
    }
    return Statement("mark_running", parameters, record_of(RunningSlot))


def end_deployment(slot: FencedSlot) -> Statement[EndedDeployment]:
    """Record that the deployment of a start finished; its image is now on its image host."""
    parameters = {
        "slot_id": slot.slot_id,
        "assignment_id": slot.assignment_id,
        "version": slot.version,
    }
    return Statement("end_deployment", parameters, record_of(EndedDeployment))


def fail_deployment(
    slot: FencedSlot,
    *,
    reason: str,
    failure_code: FailureCode = FailureCode.DEPLOY_FAILED,
    deployment_over: bool = False,
    nothing_started: bool = False,
) -> Statement[FailedDeployment]:
    """Give up a deployment and start the release of its slot.

    The bot gets `failure_code` if it has no attempts left.
    """
    parameters = {
        "slot_id": slot.slot_id,
        "assignment_id": slot.assignment_id,
        "version": slot.version,
        "deployment_over": deployment_over,
        "nothing_started": nothing_started,
        "reason": reason,
        "failure_code": failure_code,
    }
    return Statement("fail_deployment", parameters, record_of(FailedDeployment))
