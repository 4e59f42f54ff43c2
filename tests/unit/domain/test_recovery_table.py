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


def observed(state: ContainerState, deployment: DeploymentState | None = None) -> Observation:
    return Observation(container_id=ContainerId("c"), state=state, deployment=deployment)


DEPLOYING = RecoveryCase(
    status=SlotStatus.DEPLOYING,
    phase=SlotPhase.STARTING,
    unchanged_since=ago(minutes=16),
    started_at=ago(minutes=16),
    bot_status=BotStatus.DEPLOYING,
    heartbeat_at=None,
    silent_since=ago(minutes=16),
    needs_heartbeats=True,
    skipped=0,
    resets=0,
    observation=observed(ContainerState.EXITED),
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
    observation=observed(ContainerState.RUNNING),
)
FRESH = {"heartbeat_at": ago(minutes=5), "silent_since": ago(minutes=5)}
STALE = {"heartbeat_at": ago(minutes=5, seconds=1), "silent_since": ago(minutes=5, seconds=1)}


@pytest.mark.parametrize(
    ("case", "changes", "action"),
    [
        (DEPLOYING, {}, RecoveryAction.RETRY),
        (DEPLOYING, {"unchanged_since": ago(minutes=15)}, RecoveryAction.NOTHING),
        (DEPLOYING, {"phase": SlotPhase.WAITING_FOR_IMAGE}, RecoveryAction.NOTHING),
        (DEPLOYING, {"phase": SlotPhase.WAITING_FOR_START}, RecoveryAction.NOTHING),
        (DEPLOYING, {"observation": None}, RecoveryAction.NOTHING),
        (DEPLOYING, {"observation": observed(ContainerState.UNKNOWN)}, RecoveryAction.NOTHING),
        (
            DEPLOYING,
            {"observation": observed(ContainerState.STARTING, DeploymentState.QUEUED)},
            RecoveryAction.SKIP,
        ),
        (
            DEPLOYING,
            {"observation": observed(ContainerState.EXITED, DeploymentState.IN_PROGRESS)},
            RecoveryAction.SKIP,
        ),
        (DEPLOYING, STALE, RecoveryAction.FAIL),
        (DEPLOYING, FRESH, RecoveryAction.TOUCH),
        (DEPLOYING, FRESH | {"skipped": 2}, RecoveryAction.TOUCH),
        (DEPLOYING, FRESH | {"skipped": 3}, RecoveryAction.HEAL),
        (DEPLOYING, {"bot_status": BotStatus.FAILED}, RecoveryAction.RELEASE),
        (BUSY, {}, RecoveryAction.NOTHING),
        (BUSY, {"bot_status": BotStatus.DONE}, RecoveryAction.RELEASE),
        (BUSY, FRESH, RecoveryAction.NOTHING),
        (BUSY, STALE, RecoveryAction.FAIL),
        (BUSY, STALE | {"has_exited": True}, RecoveryAction.END),
        (BUSY, {"has_exited": True}, RecoveryAction.END),
        (BUSY, STALE | {"needs_heartbeats": False}, RecoveryAction.NOTHING),
        (BUSY, STALE | {"observation": None}, RecoveryAction.FAIL),
        (
            BUSY,
            {"heartbeat_at": ago(hours=1), "silent_since": ago(minutes=4)},
            RecoveryAction.NOTHING,
        ),
    ],
)
def test_rule_decides_on_action(
    case: RecoveryCase, changes: dict[str, Any], action: RecoveryAction
) -> None:
    assert decide(replace(case, **changes)) is action


@pytest.mark.parametrize("state", ContainerState)
def test_idle_slot_is_reset_only_if_its_container_runs(state: ContainerState) -> None:
    idle = replace(BUSY, status=SlotStatus.IDLE, bot_status=None, observation=observed(state))
    runs = state in (ContainerState.RUNNING, ContainerState.RESTARTING)
    assert (decide(idle) is RecoveryAction.RESET) == runs
    assert decide(replace(idle, observation=None)) is RecoveryAction.NOTHING


@pytest.mark.parametrize(
    ("resets", "action"),
    [
        (0, RecoveryAction.RETRY_RESET),
        (2, RecoveryAction.RETRY_RESET),
        (3, RecoveryAction.DELETE),
        (4, RecoveryAction.DELETE),
    ],
)
def test_slot_is_deleted_after_three_failed_resets(resets: int, action: RecoveryAction) -> None:
    error = replace(BUSY, status=SlotStatus.ERROR, bot_status=None, observation=None, resets=resets)
    assert decide(error) is action


@given(
    st.sampled_from(SlotStatus),
    st.sampled_from(SlotPhase) | st.none(),
    st.integers(0, 5),
    st.floats(0, 900),
    st.floats(0, 300),
    st.sampled_from(ContainerState) | st.none(),
)
def test_slot_with_fresh_heartbeats_within_its_time_is_not_changed(
    status: SlotStatus,
    phase: SlotPhase | None,
    skipped: int,
    unchanged_s: float,
    silent_s: float,
    state: ContainerState | None,
) -> None:
    case = replace(
        BUSY,
        status=status,
        phase=phase,
        skipped=skipped,
        unchanged_since=ago(seconds=unchanged_s),
        heartbeat_at=ago(seconds=silent_s),
        silent_since=ago(seconds=silent_s),
        observation=None if state is None else observed(state),
    )
    expected = RecoveryAction.NOTHING
    if status is SlotStatus.ERROR:
        expected = RecoveryAction.RETRY_RESET
    elif status is SlotStatus.IDLE and state in (ContainerState.RUNNING, ContainerState.RESTARTING):
        expected = RecoveryAction.RESET
    assert decide(case) is expected


@pytest.mark.parametrize(
    ("silent", "live", "mass"),
    [(4, 4, False), (5, 5, True), (5, 9, True), (5, 10, False), (50, 99, True), (50, 100, False)],
)
def test_mass_silence_is_five_bots_and_more_than_half(silent: int, live: int, mass: bool) -> None:
    assert is_mass_silence(silent=silent, live=live) is mass
