"""The recovery table, row by row, as a pure function."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from botpool.domain.ids import ContainerId
from botpool.domain.observation import ContainerState, DeploymentState, Observation
from botpool.domain.recovery import (
    RecoveryAction,
    RecoveryCase,
    RecoveryLimits,
    decide,
    is_mass_silence,
)
from botpool.domain.states import BotStatus, SlotPhase, SlotStatus

NOW = datetime(2026, 1, 5, 10, tzinfo=UTC)


def ago(**time: float) -> datetime:
    return NOW - timedelta(**time)


def seen(state: ContainerState, deployment: DeploymentState | None = None) -> Observation:
    return Observation(container_id=ContainerId("c"), state=state, deployment=deployment)


DEPLOYING = RecoveryCase(
    status=SlotStatus.DEPLOYING,
    phase=SlotPhase.STARTING,
    still_since=ago(minutes=16),
    started_at=ago(minutes=16),
    bot_status=BotStatus.DEPLOYING,
    heartbeat_at=None,
    silent_since=ago(minutes=16),
    needs_heartbeats=True,
    skipped=0,
    resets=0,
    seen=seen(ContainerState.EXITED),
    has_exited=False,
    now=NOW,
    limits=RecoveryLimits(),
)
BUSY = replace(
    DEPLOYING,
    status=SlotStatus.BUSY,
    phase=None,
    bot_status=BotStatus.IN_CALL,
    heartbeat_at=ago(seconds=5),
    silent_since=ago(seconds=5),
    seen=seen(ContainerState.RUNNING),
)
FRESH = {"heartbeat_at": ago(minutes=5), "silent_since": ago(minutes=5)}
STALE = {"heartbeat_at": ago(minutes=5, seconds=1), "silent_since": ago(minutes=5, seconds=1)}


@pytest.mark.parametrize(
    ("patient", "changes", "act"),
    [
        (DEPLOYING, {}, RecoveryAction.RETRY),
        (DEPLOYING, {"still_since": ago(minutes=15)}, RecoveryAction.LEAVE),
        (DEPLOYING, {"phase": SlotPhase.WAITING_FOR_IMAGE}, RecoveryAction.LEAVE),
        (DEPLOYING, {"phase": SlotPhase.WAITING_FOR_START}, RecoveryAction.LEAVE),
        (DEPLOYING, {"seen": None}, RecoveryAction.LEAVE),
        (DEPLOYING, {"seen": seen(ContainerState.UNKNOWN)}, RecoveryAction.LEAVE),
        (
            DEPLOYING,
            {"seen": seen(ContainerState.STARTING, DeploymentState.QUEUED)},
            RecoveryAction.SKIP,
        ),
        (
            DEPLOYING,
            {"seen": seen(ContainerState.EXITED, DeploymentState.IN_PROGRESS)},
            RecoveryAction.SKIP,
        ),
        (DEPLOYING, STALE, RecoveryAction.FAIL),
        (DEPLOYING, FRESH, RecoveryAction.TOUCH),
        (DEPLOYING, FRESH | {"skipped": 2}, RecoveryAction.TOUCH),
        (DEPLOYING, FRESH | {"skipped": 3}, RecoveryAction.HEAL),
        (DEPLOYING, {"bot_status": BotStatus.FAILED}, RecoveryAction.RELEASE),
        (BUSY, {}, RecoveryAction.LEAVE),
        (BUSY, {"bot_status": BotStatus.DONE}, RecoveryAction.RELEASE),
        (BUSY, FRESH, RecoveryAction.LEAVE),
        (BUSY, STALE, RecoveryAction.FAIL),
        (BUSY, STALE | {"has_exited": True}, RecoveryAction.END),
        (BUSY, {"has_exited": True}, RecoveryAction.END),
        (BUSY, STALE | {"needs_heartbeats": False}, RecoveryAction.LEAVE),
        (BUSY, STALE | {"seen": None}, RecoveryAction.FAIL),
        (
            BUSY,
            {"heartbeat_at": ago(hours=1), "silent_since": ago(minutes=4)},
            RecoveryAction.LEAVE,
        ),
    ],
)
def test_each_row(patient: RecoveryCase, changes: dict[str, Any], act: RecoveryAction) -> None:
    assert decide(replace(patient, **changes)) is act


@pytest.mark.parametrize("state", ContainerState)
def test_only_a_container_that_runs_is_too_much_in_an_idle_slot(state: ContainerState) -> None:
    idle = replace(BUSY, status=SlotStatus.IDLE, bot_status=None, seen=seen(state))
    assert (decide(idle) is RecoveryAction.RESET) == (state is ContainerState.RUNNING)
    assert decide(replace(idle, seen=None)) is RecoveryAction.LEAVE


@pytest.mark.parametrize(
    ("resets", "act"),
    [
        (0, RecoveryAction.LEAVE),
        (2, RecoveryAction.LEAVE),
        (3, RecoveryAction.DELETE),
        (4, RecoveryAction.DELETE),
    ],
)
def test_a_slot_that_three_resets_did_not_help_is_deleted(resets: int, act: RecoveryAction) -> None:
    error = replace(BUSY, status=SlotStatus.ERROR, bot_status=None, seen=None, resets=resets)
    assert decide(error) is act


@given(
    st.sampled_from(SlotStatus),
    st.sampled_from(SlotPhase) | st.none(),
    st.integers(0, 5),
    st.floats(0, 900),
    st.floats(0, 300),
    st.sampled_from(ContainerState) | st.none(),
)
def test_whoever_is_heard_and_not_overdue_is_left_alone(
    status: SlotStatus,
    phase: SlotPhase | None,
    skipped: int,
    still_s: float,
    silent_s: float,
    state: ContainerState | None,
) -> None:
    patient = replace(
        BUSY,
        status=status,
        phase=phase,
        skipped=skipped,
        still_since=ago(seconds=still_s),
        heartbeat_at=ago(seconds=silent_s),
        silent_since=ago(seconds=silent_s),
        seen=None if state is None else seen(state),
    )
    idle_runs = status is SlotStatus.IDLE and state is ContainerState.RUNNING
    assert decide(patient) is (RecoveryAction.RESET if idle_runs else RecoveryAction.LEAVE)


@pytest.mark.parametrize(
    ("silent", "living", "mass"),
    [(4, 4, False), (5, 5, True), (5, 9, True), (5, 10, False), (50, 99, True), (50, 100, False)],
)
def test_a_crowd_is_five_and_more_than_half(silent: int, living: int, mass: bool) -> None:
    assert is_mass_silence(silent=silent, living=living) is mass
