"""Statements about image rollouts and the revisions of runs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Unpack

from botpool.domain import reasons
from botpool.domain.fenced_slots import Fence
from botpool.domain.ids import AssignmentId, PoolName, SlotId
from botpool.domain.rollouts.records import Revision, RolloutState
from botpool.domain.slots import SlotChange
from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutRow:
    """A rollout with both revisions and its last comparison as JSON."""

    id: int
    pool_name: PoolName
    share: float
    bake_s: float
    tolerance: float
    state: RolloutState
    reason: str | None
    waits_for: str | None
    started_by: str
    started_at: datetime
    canary_at: datetime | None
    ended_at: datetime | None
    comparison: Mapping[str, Any] | None
    assigned: int
    new_runs: int
    old_image: str
    old_cpus: float
    old_memory_mb: int
    new_image: str
    new_cpus: float
    new_memory_mb: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedRollout:
    """A rollout whose next step this replica takes."""

    rollout_id: int
    pool_name: PoolName
    state: RolloutState
    share: float
    bake_s: float
    tolerance: float
    pull_failures: int
    waits_for: str | None
    canary_s: float | None
    """Seconds since the canary began; None before."""
    pull_runs: bool
    """Whether a slot pulls the image."""
    bots_wait: bool
    """Whether bots of the pool wait for a slot."""
    has_free_slot: bool
    """Whether a slot is free for a pull."""
    has_standby: bool
    """Whether the stop of a standby would free a slot for the pull."""
    standby_stops: bool
    """Whether a standby of the pool stops already."""
    has_old_revision: bool
    """Whether the pool still has the old revision; the settings may have changed it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionOutcomes:
    """The outcomes of one revision's bots."""

    is_new: bool
    assignments: int
    p50_ms: int | None
    p95_ms: int | None
    failed_starts: int
    starts_decided: int
    starts_pending: int
    slow_starts: int
    speeds_decided: int
    speeds_pending: int
    early_exits: int
    exits_decided: int
    exits_pending: int
    not_in_call: int
    calls_decided: int
    calls_pending: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedPull(SlotChange):
    """A slot that pulled an image."""

    others_wait: bool


@query
def insert_rollout(
    *,
    pool_name: PoolName,
    image: str,
    cpus: float | None,
    memory_mb: int | None,
    share: float,
    bake_s: float,
    tolerance: float,
    started_by: str,
    correlation_id: str | None,
    reason: str = reasons.ROLLOUT_STARTED,
    waits_for: str = reasons.FREE_SLOT_FOR_PULL,
) -> int | None:
    """Start a rollout; None for an unknown pool."""


@query
def list_rollouts(*, pool_name: PoolName | None, limit: int) -> list[RolloutRow]:
    """Rollouts of a pool, newest first; without a pool, all that have not ended."""


@query
def lock_rollout(*, rollout_id: int) -> None:
    """Lock a rollout until the transaction ends."""


@query
def choose_revision(*, rollout_id: int, **fence: Unpack[Fence]) -> Revision | None:
    """Choose the revision of a run that begins; None if the canary or the slot has changed."""


@query
def start_pull(
    *, rollout_id: int, reason: str = reasons.PULLS_IMAGE, waits_for: str = reasons.IMAGE_IS_PULLED
) -> SlotChange | None:
    """Start the new revision without a bot in an idle slot; None if no slot is free."""


@query
def end_pull(
    *,
    slot_id: SlotId,
    version: int,
    reason: str = reasons.ROLLOUT_IMAGE_PRESENT,
    waits_for: str = reasons.FIRST_BOTS,
) -> EndedPull | None:
    """Record that the image of a rollout is present, and begin its canary."""


@query
def record_pull_failure(*, run_id: AssignmentId | None, reason: str) -> None:
    """Count a failed pull whose run has ended."""


@query
def lease_rollouts(*, interval_s: float) -> list[LeasedRollout]:
    """Take the rollouts whose next step is due."""


@query
def compare_revisions(
    *,
    rollout_id: int,
    slow_factor: float,
    slow_margin_s: float,
    min_starts: int,
    early_exit_s: float,
    max_assignments: int,
) -> list[RevisionOutcomes]:
    """Count the outcomes of both revisions; a revision without a bot has no row."""


@query
def record_comparison(
    *, rollout_id: int, comparison: str, waits_for: str, max_assignments: int
) -> None:
    """Store a comparison of a canary."""


@query
def note_rollout(*, rollout_id: int, waits_for: str) -> None:
    """Store what a rollout that pulls its image waits for."""


@query
def end_rollout(
    *,
    rollout_id: int,
    state: RolloutState,
    from_states: Sequence[str],
    reason: str,
    comparison: str | None = None,
    correlation_id: str | None = None,
) -> PoolName | None:
    """Promote or roll back; None if the rollout is not in one of the states any more."""


@query
def stop_rollout_runs(
    *, rollout_id: int | None, standbys: bool, reason: str = reasons.ROLLOUT_ENDED
) -> list[SlotId]:
    """Begin the stop of a rollout's runs without a bot; without a rollout, of all pulls."""


@query
def prune_rollouts(*, days: int, limit: int) -> list[int]:
    """Delete ended rollouts that are past their retention."""
