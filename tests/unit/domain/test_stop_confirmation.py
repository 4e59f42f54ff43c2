"""Confirmation of stops."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from botpool.domain.ids import ContainerId
from botpool.domain.observation import (
    ACTIVE_DEPLOYMENT,
    ENDED_STATES,
    ContainerState,
    DeploymentState,
    Observation,
)
from botpool.domain.stop_confirmation import stop_is_confirmed

STARTED = datetime(2026, 1, 1, tzinfo=UTC)


def observation(state: ContainerState, deployment: DeploymentState | None = None) -> Observation:
    return Observation(container_id=ContainerId("c"), state=state, deployment=deployment)


@given(
    st.sampled_from(ContainerState),
    st.none() | st.sampled_from(DeploymentState),
    st.booleans(),
    st.floats(0, 200),
)
def test_only_an_ended_container_confirms_a_stop(
    state: ContainerState,
    deployment: DeploymentState | None,
    observed_running: bool,
    age_s: float,
) -> None:
    confirmed = stop_is_confirmed(
        observation(state, deployment),
        observed_running=observed_running,
        stop_issued_at=STARTED,
        status_unreliable_at=None,
        now=STARTED + timedelta(seconds=age_s),
        status_lag_s=60,
    )
    if confirmed:
        assert state in ENDED_STATES
        assert deployment not in ACTIVE_DEPLOYMENT
        assert state is ContainerState.GONE or observed_running or age_s >= 60


@pytest.mark.parametrize(
    ("unreliable_s", "confirmed"), [(None, True), (-1, True), (0, False), (50, False), (-70, True)]
)
def test_stop_issued_before_an_unreliable_status_is_not_confirmed(
    unreliable_s: float | None, confirmed: bool
) -> None:
    unreliable_at = None if unreliable_s is None else STARTED + timedelta(seconds=unreliable_s)
    assert confirmed == stop_is_confirmed(
        observation(ContainerState.EXITED),
        observed_running=True,
        stop_issued_at=STARTED,
        status_unreliable_at=unreliable_at,
        now=STARTED + timedelta(seconds=100),
        status_lag_s=60,
    )
