"""Judgements over evidence: every state of a container against every moment."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from botpool.domain.decisions import (
    StartVerdict,
    assess_start,
    ending_after_deadline,
    ending_after_exit,
    estimate_wait_ms,
    has_exited,
    is_applicable,
    may_claim,
    stop_is_confirmed,
)
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import (
    ACTIVE_DEPLOYMENT,
    DOWN,
    FAILED_DEPLOYMENT,
    ContainerState,
    DeploymentState,
    Observation,
)
from botpool.domain.states import FINAL, RUNNING, BotStatus, FailureCode, SlotStatus

STARTED = datetime(2026, 1, 1, tzinfo=UTC)
OURS = AssignmentId(7)
FORMER = AssignmentId(6)
GRACE_S, TIMEOUT_S = 180, 1500

states = st.sampled_from(ContainerState)
deployments = st.none() | st.sampled_from(DeploymentState)
ages = st.floats(0, 3000)


def seen(
    state: ContainerState,
    deployment: DeploymentState | None = None,
    whose: AssignmentId | None = None,
) -> Observation:
    return Observation(
        container_id=ContainerId("c"), state=state, deployment=deployment, assignment_id=whose
    )


def judged(
    observation: Observation,
    age_s: float,
    *,
    awaits_deployment: bool = False,
    deployment_ended_s: float | None = None,
) -> StartVerdict:
    ended = None
    if deployment_ended_s is not None:
        ended = STARTED + timedelta(seconds=deployment_ended_s)
    return assess_start(
        observation,
        assignment_id=OURS,
        started_at=STARTED,
        awaits_deployment=awaits_deployment,
        deployment_ended_at=ended,
        now=STARTED + timedelta(seconds=age_s),
        grace_s=GRACE_S,
        timeout_s=TIMEOUT_S,
    ).verdict


def exited(
    observation: Observation,
    *,
    running_s: float = 3600,
    silent_s: float | None = None,
    doubted_s: float | None = None,
) -> bool:
    """With the status lag of 60 s and heartbeats every 10 s."""
    now = STARTED + timedelta(hours=2)
    beat = None if silent_s is None else now - timedelta(seconds=silent_s)
    doubted = None if doubted_s is None else now - timedelta(seconds=doubted_s)
    return has_exited(
        observation,
        assignment_id=OURS,
        running_at=now - timedelta(seconds=running_s),
        status_unreliable_at=doubted,
        last_heartbeat_at=beat,
        now=now,
        status_lag_s=60,
        heartbeat_s=10,
    )


@given(st.sampled_from(sorted(set(DeploymentState) - {DeploymentState.QUEUED})) | st.none(), ages)
def test_running_is_running(deployment: DeploymentState | None, age_s: float) -> None:
    assert judged(seen(ContainerState.RUNNING, deployment), age_s) is StartVerdict.RUNNING


def test_what_runs_while_our_deployment_is_queued_is_not_ours() -> None:
    assert judged(seen(ContainerState.RUNNING, DeploymentState.QUEUED), 10) is StartVerdict.WAIT


@given(st.sampled_from(sorted(FAILED_DEPLOYMENT)), ages)
def test_a_deployment_that_broke_off_has_failed(deployment: DeploymentState, age_s: float) -> None:
    for state in set(ContainerState) - {ContainerState.RUNNING}:
        assert judged(seen(state, deployment), age_s) is StartVerdict.FAILED


def test_an_exited_container_waits_for_its_deployment_and_the_grace_after_it() -> None:
    look = seen(ContainerState.EXITED)
    assert judged(look, TIMEOUT_S - 1, awaits_deployment=True) is StartVerdict.WAIT
    after = {"awaits_deployment": True, "deployment_ended_s": 420}
    assert judged(look, 420 + GRACE_S - 1, **after) is StartVerdict.WAIT
    assert judged(look, 420 + GRACE_S, **after) is StartVerdict.FAILED


@given(st.sampled_from(sorted(DOWN)))
def test_an_end_counts_when_the_status_has_followed_and_the_agent_is_silent(
    state: ContainerState,
) -> None:
    assert exited(seen(state))
    assert exited(seen(state), silent_s=30)
    assert not exited(seen(state), silent_s=29)
    assert not exited(seen(state), running_s=59)
    assert not exited(seen(state), doubted_s=59)
    assert exited(seen(state), doubted_s=60)
    assert not exited(seen(state, DeploymentState.IN_PROGRESS))
    assert exited(seen(state, whose=OURS), running_s=0, silent_s=0)


@given(st.sampled_from([ContainerState.ERROR, ContainerState.DEGRADED]), deployments, ages)
def test_error_and_degraded_fail_always(
    state: ContainerState, deployment: DeploymentState | None, age_s: float
) -> None:
    assert judged(seen(state, deployment), age_s) is StartVerdict.FAILED


@given(
    st.sampled_from([ContainerState.EXITED, ContainerState.STOPPED]),
    st.sampled_from(sorted(ACTIVE_DEPLOYMENT)),
    st.floats(0, TIMEOUT_S - 1),
)
def test_an_exited_container_is_the_past_while_its_deployment_is_under_way(
    state: ContainerState, deployment: DeploymentState, age_s: float
) -> None:
    assert judged(seen(state, deployment), age_s) is StartVerdict.WAIT


@pytest.mark.parametrize("state", [ContainerState.EXITED, ContainerState.STOPPED])
def test_an_exited_container_fails_after_the_grace_and_not_before(state: ContainerState) -> None:
    assert judged(seen(state), GRACE_S - 0.001) is StartVerdict.WAIT
    assert judged(seen(state), GRACE_S) is StartVerdict.FAILED


def test_a_backend_that_knows_whose_run_it_shows_needs_no_grace() -> None:
    assert judged(seen(ContainerState.EXITED, whose=OURS), 0) is StartVerdict.FAILED
    assert judged(seen(ContainerState.STOPPED, whose=OURS), 0) is StartVerdict.WAIT


@given(states, st.floats(0, TIMEOUT_S - 1))
def test_the_run_of_another_assignment_is_no_evidence(state: ContainerState, age_s: float) -> None:
    assert judged(seen(state, whose=FORMER), age_s) is StartVerdict.WAIT
    assert not exited(seen(state, whose=FORMER))


@given(states, deployments, st.floats(TIMEOUT_S, 10 * TIMEOUT_S))
def test_nothing_waits_past_the_timeout(
    state: ContainerState, deployment: DeploymentState | None, age_s: float
) -> None:
    assert judged(seen(state, deployment), age_s) is not StartVerdict.WAIT


@given(
    st.sampled_from([ContainerState.UNKNOWN, ContainerState.STARTING]),
    st.none() | st.sampled_from(sorted(set(DeploymentState) - FAILED_DEPLOYMENT)),
)
def test_an_answer_that_says_nothing_ends_nothing(
    state: ContainerState, deployment: DeploymentState | None
) -> None:
    assert judged(seen(state, deployment), 0) is StartVerdict.WAIT
    assert not exited(seen(state, deployment))


@given(
    states,
    deployments,
    st.booleans(),
    st.floats(0, 200),
)
def test_a_stop_is_confirmed_only_by_a_container_that_is_down(
    state: ContainerState,
    deployment: DeploymentState | None,
    observed_running: bool,
    age_s: float,
) -> None:
    confirmed = stop_is_confirmed(
        seen(state, deployment),
        observed_running=observed_running,
        stop_issued_at=STARTED,
        status_unreliable_at=None,
        now=STARTED + timedelta(seconds=age_s),
        status_lag_s=60,
    )
    if confirmed:
        assert state in DOWN
        assert deployment not in ACTIVE_DEPLOYMENT
        assert state is ContainerState.GONE or observed_running or age_s >= 60


@pytest.mark.parametrize(
    ("doubted_s", "confirmed"), [(None, True), (-1, True), (0, False), (50, False), (-70, True)]
)
def test_a_stop_from_before_the_platforms_blindness_confirms_nothing(
    doubted_s: float | None, confirmed: bool
) -> None:
    doubted = None if doubted_s is None else STARTED + timedelta(seconds=doubted_s)
    assert confirmed == stop_is_confirmed(
        seen(ContainerState.EXITED),
        observed_running=True,
        stop_issued_at=STARTED,
        status_unreliable_at=doubted,
        now=STARTED + timedelta(seconds=100),
        status_lag_s=60,
    )


@pytest.mark.parametrize("status", BotStatus)
def test_how_an_exit_ends_a_bot(status: BotStatus) -> None:
    unasked = ending_after_exit(status, asked_to_leave=False, detail="exited with code 1")
    if status is BotStatus.CALL_ENDED:
        assert unasked.status is BotStatus.DONE
    else:
        assert unasked.failure_code is FailureCode.CONTAINER_EXITED
        assert (
            ending_after_exit(status, asked_to_leave=True, detail="").status is BotStatus.CANCELLED
        )


def test_how_an_overstay_ends_a_bot() -> None:
    def ending(status: BotStatus, *, asked: bool) -> tuple[BotStatus, FailureCode | None]:
        end = ending_after_deadline(status, asked_to_leave=asked, max_duration_s=1)
        return end.status, end.failure_code

    assert ending(BotStatus.IN_CALL, asked=False) == (BotStatus.FAILED, FailureCode.MAX_DURATION)
    assert ending(BotStatus.LEAVING, asked=True) == (BotStatus.CANCELLED, None)
    assert ending(BotStatus.CALL_ENDED, asked=True) == (BotStatus.DONE, None)


@given(st.sampled_from(BotStatus), st.sampled_from(BotStatus))
def test_a_late_or_backward_report_is_not_applicable(
    current: BotStatus, reported: BotStatus
) -> None:
    applicable = is_applicable(reported, current=current)
    if current in FINAL:
        assert not applicable
    if applicable and current in RUNNING and reported in RUNNING:
        assert not is_applicable(current, current=reported), "both ways cannot be forward"


@pytest.mark.parametrize("status", SlotStatus)
def test_only_idle_slots_that_are_not_cordoned_may_be_claimed(status: SlotStatus) -> None:
    assert may_claim(status, cordoned=False) == (status is SlotStatus.IDLE)
    assert not may_claim(status, cordoned=True)


def test_the_estimate_follows_stays_and_slots() -> None:
    assert estimate_wait_ms(1, ends=10, exposure_s=6000, slots=1) == 600_000
    assert estimate_wait_ms(3, ends=10, exposure_s=6000, slots=2) == 900_000
    assert estimate_wait_ms(1, ends=0, exposure_s=30, slots=3) == 10_000
    assert estimate_wait_ms(1, ends=0, exposure_s=0, slots=0) is None


@given(st.integers(1, 1000), st.integers(0, 100), st.floats(0.1, 1e6), st.integers(1, 100))
def test_who_stands_further_back_waits_no_less(
    position: int, ends: int, exposure_s: float, slots: int
) -> None:
    here = estimate_wait_ms(position, ends=ends, exposure_s=exposure_s, slots=slots)
    behind = estimate_wait_ms(position + 1, ends=ends, exposure_s=exposure_s, slots=slots)
    assert here is not None
    assert behind is not None
    assert behind >= here
