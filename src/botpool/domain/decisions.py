"""Judgements over evidence, as pure functions: what a look means, what a report may do.

The rule behind all of them: act only on positive evidence. An answer that may describe the past,
or that says nothing, changes nothing.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

from botpool.domain.ids import AssignmentId
from botpool.domain.observation import (
    ACTIVE_DEPLOYMENT,
    DOWN,
    FAILED_DEPLOYMENT,
    ContainerState,
    DeploymentState,
    Observation,
)
from botpool.domain.states import FINAL, BotStatus, FailureCode, SlotStatus, can_transition

_BEATS_OF_SILENCE = 3
"""Heartbeats that must be missing before a status is believed against a live agent."""


def may_claim(status: SlotStatus, *, cordoned: bool) -> bool:
    """May this slot be given to a bot?"""
    return status is SlotStatus.IDLE and not cordoned


class StartVerdict(Enum):
    WAIT = auto()
    RUNNING = auto()
    FAILED = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class StartAssessment:
    verdict: StartVerdict
    reason: str = ""


_WAIT = StartAssessment(verdict=StartVerdict.WAIT)


def assess_start(
    seen: Observation,
    *,
    assignment_id: AssignmentId,
    started_at: datetime,
    awaits_deployment: bool,
    deployment_ended_at: datetime | None,
    now: datetime,
    grace_s: float,
    timeout_s: float,
) -> StartAssessment:
    """Is this look at a starting container a success, a failure, or nothing yet?

    `exited` and `stopped` are the state of the past until proven otherwise: while the start's own
    deployment is under way, and within the grace after its end (after the start, on backends
    without deployments). A backend that says whose run it shows gives that proof itself.
    """
    if seen.assignment_id is not None and seen.assignment_id != assignment_id:
        return _or_timeout(seen, started_at, now, timeout_s)
    if seen.deployment in FAILED_DEPLOYMENT and seen.state is not ContainerState.RUNNING:
        return StartAssessment(
            verdict=StartVerdict.FAILED, reason=f"the deployment was {seen.deployment}"
        )
    match seen.state:
        case ContainerState.RUNNING if seen.deployment is not DeploymentState.QUEUED:
            return StartAssessment(
                verdict=StartVerdict.RUNNING, reason=seen.detail or "seen running"
            )
        case ContainerState.ERROR | ContainerState.DEGRADED:
            return _failed(seen)
        case ContainerState.GONE:
            return StartAssessment(verdict=StartVerdict.FAILED, reason="the container is gone")
        case ContainerState.EXITED if seen.assignment_id == assignment_id:
            return _failed(seen)
        case ContainerState.EXITED | ContainerState.STOPPED:
            unfinished = awaits_deployment and deployment_ended_at is None
            if seen.deployment not in ACTIVE_DEPLOYMENT and not unfinished:
                since = deployment_ended_at or started_at
                if now - since >= timedelta(seconds=grace_s):
                    return _failed(seen)
    return _or_timeout(seen, started_at, now, timeout_s)


def _failed(seen: Observation) -> StartAssessment:
    shown = seen.detail or f"is {seen.state}"
    return StartAssessment(verdict=StartVerdict.FAILED, reason=f"the container {shown}")


def _or_timeout(
    seen: Observation, started_at: datetime, now: datetime, timeout_s: float
) -> StartAssessment:
    if now - started_at < timedelta(seconds=timeout_s):
        return _WAIT
    shown = seen.detail or seen.state
    return StartAssessment(
        verdict=StartVerdict.FAILED, reason=f"not running {timeout_s:g} s after its start ({shown})"
    )


def has_exited(
    seen: Observation,
    *,
    assignment_id: AssignmentId,
    running_at: datetime | None,
    status_unreliable_at: datetime | None,
    last_heartbeat_at: datetime | None,
    now: datetime,
    status_lag_s: float,
    heartbeat_s: float,
) -> bool:
    """Does this look show that a busy slot's container has ended?

    Where a backend cannot say whose run it shows, its status may be older than what we know: an
    end counts once the status had time to follow the start, and the backend's last blindness, and
    not against a live agent's word.
    """
    if seen.assignment_id is not None:
        return seen.assignment_id == assignment_id and seen.state in DOWN
    if seen.state not in DOWN or seen.deployment in ACTIVE_DEPLOYMENT:
        return False
    lag = timedelta(seconds=status_lag_s)
    followed = all(at is None or now - at >= lag for at in (running_at, status_unreliable_at))
    silence = timedelta(seconds=_BEATS_OF_SILENCE * heartbeat_s)
    silent = last_heartbeat_at is None or now - last_heartbeat_at >= silence
    return followed and silent


@dataclass(frozen=True, slots=True, kw_only=True)
class BotEnding:
    """How a bot ends, and why."""

    status: BotStatus
    reason: str
    failure_code: FailureCode | None = None


def ending_after_exit(bot: BotStatus, *, asked_to_leave: bool, detail: str) -> BotEnding:
    """What becomes of a bot whose container ended without a last word."""
    if bot is BotStatus.CALL_ENDED:
        return BotEnding(status=BotStatus.DONE, reason="the container ended after the call")
    if asked_to_leave:
        return BotEnding(status=BotStatus.CANCELLED, reason="left when asked")
    return BotEnding(
        status=BotStatus.FAILED,
        reason=f"The container ended by itself: {detail}.",
        failure_code=FailureCode.CONTAINER_EXITED,
    )


def ending_after_deadline(
    bot: BotStatus, *, asked_to_leave: bool, max_duration_s: float
) -> BotEnding:
    """What becomes of a bot that is stopped because its time is over."""
    if bot is BotStatus.CALL_ENDED:
        return BotEnding(status=BotStatus.DONE, reason="stopped after the call had ended")
    if asked_to_leave:
        return BotEnding(status=BotStatus.CANCELLED, reason="stopped: it did not leave in time")
    return BotEnding(
        status=BotStatus.FAILED,
        reason=f"The bot ran longer than the maximum of {max_duration_s:g} s.",
        failure_code=FailureCode.MAX_DURATION,
    )


def is_applicable(reported: BotStatus, *, current: BotStatus) -> bool:
    """May a report of the current agent change its bot? Late and backward ones may not."""
    return current not in FINAL and can_transition(current, reported)


def stop_is_confirmed(
    seen: Observation,
    *,
    observed_running: bool,
    stop_issued_at: datetime,
    status_unreliable_at: datetime | None,
    now: datetime,
    status_lag_s: float,
) -> bool:
    """Is it certain that nothing of this assignment runs, or can still come to run?

    A backend whose status lags may show the state from before the start: it counts if the
    container was seen running since, or once the lag has passed after the stop. A stop that was
    sent before the backend was last blind may have reached nobody.
    """
    if seen.deployment in ACTIVE_DEPLOYMENT:
        return False
    if seen.state is ContainerState.GONE:
        return True
    if seen.state not in DOWN:
        return False
    lag = timedelta(seconds=status_lag_s)
    if status_unreliable_at is not None and (
        stop_issued_at <= status_unreliable_at or now - status_unreliable_at < lag
    ):
        return False
    return observed_running or now - stop_issued_at >= lag


def stop_is_overdue(*, stop_issued_at: datetime | None, now: datetime, patience_s: float) -> bool:
    """Has a stop been asked for so long ago that stopping again will not help?"""
    return stop_issued_at is not None and now - stop_issued_at >= timedelta(seconds=patience_s)


def estimate_wait_ms(position: int, *, ends: int, exposure_s: float, slots: int) -> int | None:
    """How long the bot at `position` will wait, from how long bots keep their slots.

    `exposure_s / ends` is the maximum-likelihood mean stay when stays under way count for what
    they have lasted; `slots` of them end side by side. Nothing measured, nothing said.
    """
    if slots == 0 or exposure_s <= 0:
        return None
    mean_stay_s = exposure_s / max(ends, 1)
    return round(position * mean_stay_s / slots * 1000)
