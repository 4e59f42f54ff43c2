"""The confirmation that a container has stopped and cannot start again."""

from datetime import datetime, timedelta

from botpool.domain.observation import (
    ACTIVE_DEPLOYMENT,
    ENDED_STATES,
    ContainerState,
    Observation,
)


def stop_is_confirmed(
    observed: Observation,
    *,
    observed_running: bool,
    stop_issued_at: datetime,
    status_unreliable_at: datetime | None,
    now: datetime,
    status_lag_s: float,
) -> bool:
    """Whether no container of this assignment runs or can still start.

    A backend whose status lags may show the state from before the start. Its status counts if the
    container was observed running since the start, or once the lag has passed after the stop. A
    stop that was issued before the last unreliable status may not have reached the container.
    """
    if observed.deployment in ACTIVE_DEPLOYMENT:
        return False
    if observed.state is ContainerState.GONE:
        return True
    if observed.state not in ENDED_STATES:
        return False
    lag = timedelta(seconds=status_lag_s)
    if status_unreliable_at is not None and (
        stop_issued_at <= status_unreliable_at or now - status_unreliable_at < lag
    ):
        return False
    return observed_running or now - stop_issued_at >= lag


def is_unconfirmable(observed: Observation, *, overdue: bool) -> bool:
    """Whether the backend answers that it cannot know whether the container has stopped.

    The node of the container is unreachable, or the container vanished without a proof of its end.
    A stop that was sent is in effect; only the return of the node, or an operator, can end this.
    Without a lost node, the answer counts once the stop is `overdue`: before, it may not last.
    """
    is_unknown = observed.state is ContainerState.UNKNOWN and not observed.status_unreliable
    return is_unknown and (
        observed.unreachable_node is not None or (overdue and bool(observed.detail))
    )


def stop_is_overdue(*, stop_issued_at: datetime | None, now: datetime, limit_s: float) -> bool:
    """Whether a stop was issued so long ago that another stop will not help."""
    return stop_issued_at is not None and now - stop_issued_at >= timedelta(seconds=limit_s)
