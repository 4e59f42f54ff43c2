"""The assessment of a starting container and of a running one, from one observation.

Botpool acts only on positive evidence. An observation that may describe the past, or that shows
nothing, has no effect.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

from botpool.domain import reasons
from botpool.domain.ids import AssignmentId
from botpool.domain.observation import (
    ACTIVE_DEPLOYMENT,
    ENDED_STATES,
    FAILED_DEPLOYMENT,
    ContainerState,
    Observation,
)

_EXITED_STATES = ENDED_STATES | {ContainerState.RESTARTING}
_MISSED_HEARTBEATS = 3
"""Heartbeats that must be missing before an `exited` status outweighs a live agent."""


class StartVerdict(Enum):
    WAIT = auto()
    RUNNING = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class StartAssessment:
    """Whether a start succeeded, failed or is still open, with the reason."""

    verdict: StartVerdict
    reason: str = ""
    is_stuck: bool = False
    """Whether the start failed by its timeout alone: the backend reported no failure."""
    is_infrastructure_fault: bool = False


_WAIT = StartAssessment(verdict=StartVerdict.WAIT)


def assess_start(
    observed: Observation,
    *,
    assignment_id: AssignmentId,
    started_at: datetime,
    awaits_deployment: bool,
    deployment_ended_at: datetime | None,
    now: datetime,
    grace_s: float,
    timeout_s: float,
) -> StartAssessment:
    """Assess one observation of a starting container.

    `exited`, `stopped`, `restarting` and `degraded` may describe the time before the start, or the
    removal of the old container: while the start's own deployment is under way, and within the
    grace after its end (after the start, on backends without deployments). An observation that
    names its assignment needs no grace.
    """
    if is_of_later_assignment(observed, assignment_id):
        return _failed_start("the container has served a later assignment")
    if observed.assignment_id not in (None, assignment_id):
        return _fail_after_timeout(observed, started_at, now, timeout_s)
    if (failure := _reported_failure(observed)) is not None:
        return failure
    match observed.state:
        case ContainerState.RUNNING if observed.deployment not in ACTIVE_DEPLOYMENT:
            reason = observed.detail or reasons.OBSERVED_RUNNING
            return StartAssessment(verdict=StartVerdict.RUNNING, reason=reason)
        case ContainerState.ERROR:
            return _container_failed(observed)
        case ContainerState.GONE:
            return _failed_start("the container is gone")
        case ContainerState.EXITED | ContainerState.DEGRADED if (
            observed.assignment_id == assignment_id
        ):
            return _container_failed(observed)
        case (
            ContainerState.EXITED
            | ContainerState.STOPPED
            | ContainerState.RESTARTING
            | ContainerState.DEGRADED
        ):
            unfinished = awaits_deployment and deployment_ended_at is None
            is_open = observed.deployment in ACTIVE_DEPLOYMENT or unfinished
            since = deployment_ended_at or started_at
            if not is_open and now - since >= timedelta(seconds=grace_s):
                return _container_failed(observed)
    return _fail_after_timeout(observed, started_at, now, timeout_s)


def has_exited(
    observed: Observation,
    *,
    assignment_id: AssignmentId,
    running_at: datetime | None,
    status_unreliable_at: datetime | None,
    last_heartbeat_at: datetime | None,
    now: datetime,
    status_lag_s: float,
    heartbeat_s: float,
) -> bool:
    """Whether an observation shows that the container of a busy slot exited.

    A backend that does not name the assignment may show an old status. Then an exit counts only
    after the status lag has passed since the start and since the last unreliable status, and only
    if the agent's heartbeats have stopped. A container that is restarting has exited.
    """
    if is_of_later_assignment(observed, assignment_id):
        return True
    if observed.assignment_id is not None:
        return observed.assignment_id == assignment_id and observed.state in _EXITED_STATES
    if observed.state not in _EXITED_STATES or observed.deployment in ACTIVE_DEPLOYMENT:
        return False
    lag = timedelta(seconds=status_lag_s)
    is_current = all(at is None or now - at >= lag for at in (running_at, status_unreliable_at))
    silence = timedelta(seconds=_MISSED_HEARTBEATS * heartbeat_s)
    is_silent = last_heartbeat_at is None or now - last_heartbeat_at >= silence
    return is_current and is_silent


def is_of_later_assignment(observed: Observation, assignment_id: AssignmentId) -> bool:
    """Whether the container ran a later assignment, so that this one is over.

    That happens after a restore: the database has lost the later assignment.
    """
    return observed.assignment_id is not None and observed.assignment_id > assignment_id


def _failed_start(reason: str) -> StartAssessment:
    return StartAssessment(verdict=StartVerdict.FAILED, reason=reason)


def _reported_failure(observed: Observation) -> StartAssessment | None:
    """Return the failure that the backend itself reports, if it does."""
    if observed.infrastructure_fault and observed.state in ENDED_STATES:
        return StartAssessment(
            verdict=StartVerdict.FAILED,
            reason=observed.infrastructure_fault,
            is_infrastructure_fault=True,
        )
    if observed.deployment in FAILED_DEPLOYMENT and observed.state is not ContainerState.RUNNING:
        return _failed_start(f"the deployment was {observed.deployment}")
    return None


def _container_failed(observed: Observation) -> StartAssessment:
    return _failed_start(f"the container {observed.detail or f'is {observed.state}'}")


def _fail_after_timeout(
    observed: Observation, started_at: datetime, now: datetime, timeout_s: float
) -> StartAssessment:
    if (now - started_at).total_seconds() < timeout_s:
        return _WAIT
    reason = f"not running {timeout_s:g} s after its start ({observed.detail or observed.state})"
    return StartAssessment(verdict=StartVerdict.FAILED, reason=reason, is_stuck=True)
