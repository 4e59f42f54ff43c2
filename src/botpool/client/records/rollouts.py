"""Records of image rollouts."""

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """An image with its settings."""

    image: str
    cpus: float
    memory_mb: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The bots of one revision with an outcome, and how many of them failed."""

    failures: int
    bots: int
    pending: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureComparison:
    """One measure of both revisions."""

    measure: str
    """`failed_starts`, `slow_starts`, `early_exits` or `not_in_call`."""
    old: Tally
    new: Tally
    probability_worse: float
    bots_needed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionFigures:
    """How many assignments a revision got, and how fast they started."""

    assignments: int
    time_to_running_p50_ms: int | None
    time_to_running_p95_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Both revisions side by side."""

    old: RevisionFigures
    new: RevisionFigures
    measures: list[MeasureComparison]
    sureness: float
    """How sure Botpool is that no measure is worse; it promotes at 0.95."""
    bots_needed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """The rollout of a new revision in a pool."""

    id: int
    platform: str
    state: str
    """`pulling`, `canary`, `promoted` or `rolled_back`."""
    old: Revision
    new: Revision
    canary_share: float
    bake_ms: int
    tolerance: float
    started_by: str
    started_at: datetime
    canary_at: datetime | None
    ended_at: datetime | None
    reason: str | None
    waits_for: str | None
    comparison: Comparison | None = field(hash=False)
