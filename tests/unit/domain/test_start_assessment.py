"""Assessment of a starting container and of a running one: each state at each time."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import (
    ACTIVE_DEPLOYMENT,
    ENDED_STATES,
    FAILED_DEPLOYMENT,
    ContainerState,
    DeploymentState,
    Observation,
)
from botpool.domain.start_assessment import StartVerdict, assess_start, has_exited

STARTED = datetime(2026, 1, 1, tzinfo=UTC)
OURS = AssignmentId(7)
OTHER = AssignmentId(6)
GRACE_S, TIMEOUT_S = 180, 1500

states = st.sampled_from(ContainerState)
deployments = st.none() | st.sampled_from(DeploymentState)
ages = st.floats(0, 3000)


def observation(
    state: ContainerState,
    deployment: DeploymentState | None = None,
    assignment_id: AssignmentId | None = None,
) -> Observation:
    return Observation(
        container_id=ContainerId("c"),
        state=state,
        deployment=deployment,
        assignment_id=assignment_id,
    )


def assess(
    observed: Observation,
    age_s: float,
    *,
    awaits_deployment: bool = False,
    deployment_ended_s: float | None = None,
) -> StartVerdict:
    ended = None
    if deployment_ended_s is not None:
        ended = STARTED + timedelta(seconds=deployment_ended_s)
    return assess_start(
        observed,
        assignment_id=OURS,
        started_at=STARTED,
        awaits_deployment=awaits_deployment,
        deployment_ended_at=ended,
        now=STARTED + timedelta(seconds=age_s),
        grace_s=GRACE_S,
        timeout_s=TIMEOUT_S,
    ).verdict


def exited(
    observed: Observation,
    *,
    running_s: float = 3600,
    silent_s: float | None = None,
    unreliable_s: float | None = None,
) -> bool:
    """Call `has_exited` with a status lag of 60 s and a heartbeat interval of 10 s."""
    now = STARTED + timedelta(hours=2)
    heartbeat_at = None if silent_s is None else now - timedelta(seconds=silent_s)
    unreliable_at = None if unreliable_s is None else now - timedelta(seconds=unreliable_s)
    return has_exited(
        observed,
        assignment_id=OURS,
        running_at=now - timedelta(seconds=running_s),
        status_unreliable_at=unreliable_at,
        last_heartbeat_at=heartbeat_at,
        now=now,
        status_lag_s=60,
        heartbeat_s=10,
    )


@given(st.sampled_from(sorted(set(DeploymentState) - ACTIVE_DEPLOYMENT)) | st.none(), ages)
def test_running_container_started(deployment: DeploymentState | None, age_s: float) -> None:
    assert assess(observation(ContainerState.RUNNING, deployment), age_s) is StartVerdict.RUNNING


@pytest.mark.parametrize("deployment", sorted(ACTIVE_DEPLOYMENT))
def test_container_that_runs_during_its_deployment_may_be_an_old_run(
    deployment: DeploymentState,
) -> None:
    assert assess(observation(ContainerState.RUNNING, deployment), 10) is StartVerdict.WAIT


@given(st.sampled_from(sorted(FAILED_DEPLOYMENT)), ages)
def test_failed_or_cancelled_deployment_fails_the_start(
    deployment: DeploymentState, age_s: float
) -> None:
    for state in set(ContainerState) - {ContainerState.RUNNING}:
        assert assess(observation(state, deployment), age_s) is StartVerdict.FAILED


def test_exited_status_counts_only_after_deployment_and_grace() -> None:
    exited_observation = observation(ContainerState.EXITED)
    assert assess(exited_observation, TIMEOUT_S - 1, awaits_deployment=True) is StartVerdict.WAIT
    after = {"awaits_deployment": True, "deployment_ended_s": 420}
    assert assess(exited_observation, 420 + GRACE_S - 1, **after) is StartVerdict.WAIT
    assert assess(exited_observation, 420 + GRACE_S, **after) is StartVerdict.FAILED


@given(st.sampled_from(sorted(ENDED_STATES)))
def test_exit_counts_after_status_lag_and_without_heartbeats(
    state: ContainerState,
) -> None:
    assert exited(observation(state))
    assert exited(observation(state), silent_s=30)
    assert not exited(observation(state), silent_s=29)
    assert not exited(observation(state), running_s=59)
    assert not exited(observation(state), unreliable_s=59)
    assert exited(observation(state), unreliable_s=60)
    assert not exited(observation(state, DeploymentState.IN_PROGRESS))
    assert exited(observation(state, assignment_id=OURS), running_s=0, silent_s=0)


@given(deployments, ages)
def test_error_fails_the_start_at_once(deployment: DeploymentState | None, age_s: float) -> None:
    assert assess(observation(ContainerState.ERROR, deployment), age_s) is StartVerdict.FAILED


@given(
    st.sampled_from([ContainerState.DEGRADED, ContainerState.RESTARTING]),
    st.floats(0, GRACE_S - 1),
)
def test_degraded_and_restarting_have_the_grace_of_exited(
    state: ContainerState, age_s: float
) -> None:
    assert assess(observation(state), age_s) is StartVerdict.WAIT
    assert assess(observation(state), GRACE_S) is StartVerdict.FAILED


@given(
    st.sampled_from(
        [
            ContainerState.EXITED,
            ContainerState.STOPPED,
            ContainerState.DEGRADED,
            ContainerState.RESTARTING,
        ]
    ),
    st.sampled_from(sorted(ACTIVE_DEPLOYMENT)),
    st.floats(0, TIMEOUT_S - 1),
)
def test_exited_status_is_no_evidence_during_deployment(
    state: ContainerState, deployment: DeploymentState, age_s: float
) -> None:
    assert assess(observation(state, deployment), age_s) is StartVerdict.WAIT


@pytest.mark.parametrize("state", [ContainerState.EXITED, ContainerState.STOPPED])
def test_exited_status_fails_the_start_after_the_grace(state: ContainerState) -> None:
    assert assess(observation(state), GRACE_S - 0.001) is StartVerdict.WAIT
    assert assess(observation(state), GRACE_S) is StartVerdict.FAILED


def test_observation_of_this_assignment_needs_no_grace() -> None:
    assert assess(observation(ContainerState.EXITED, assignment_id=OURS), 0) is StartVerdict.FAILED
    assert assess(observation(ContainerState.STOPPED, assignment_id=OURS), 0) is StartVerdict.WAIT


@given(states, st.floats(0, TIMEOUT_S - 1))
def test_observation_of_another_assignment_is_no_evidence(
    state: ContainerState, age_s: float
) -> None:
    assert assess(observation(state, assignment_id=OTHER), age_s) is StartVerdict.WAIT
    assert not exited(observation(state, assignment_id=OTHER))


@given(states, deployments, st.floats(TIMEOUT_S, 10 * TIMEOUT_S))
def test_start_never_waits_past_the_timeout(
    state: ContainerState, deployment: DeploymentState | None, age_s: float
) -> None:
    assert assess(observation(state, deployment), age_s) is not StartVerdict.WAIT


@given(
    st.sampled_from([ContainerState.UNKNOWN, ContainerState.STARTING]),
    st.none() | st.sampled_from(sorted(set(DeploymentState) - FAILED_DEPLOYMENT)),
)
def test_unknown_and_starting_are_no_evidence(
    state: ContainerState, deployment: DeploymentState | None
) -> None:
    assert assess(observation(state, deployment), 0) is StartVerdict.WAIT
    assert not exited(observation(state, deployment))
