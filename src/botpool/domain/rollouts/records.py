"""A rollout and its two revisions, as plain values."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from botpool.domain.ids import PoolName
from botpool.domain.rollouts.comparison import Arm, Comparison

MAX_SHARE = 0.5
"""The largest share of a canary: the old revision needs as many bots for the comparison."""


class RolloutState(StrEnum):
    """The state of a rollout.

    - `pulling`: a slot without a bot starts the new revision once, so that its image is present
    - `canary`: the new revision gets its share of assignments
    - `promoted`: the new revision is the pool's
    - `rolled_back`: the old revision is the pool's
    """

    PULLING = "pulling"
    CANARY = "canary"
    PROMOTED = "promoted"
    ROLLED_BACK = "rolled_back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """An image with its settings."""

    image: str
    """With its digest where the backend resolves one."""
    cpus: float
    memory_mb: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutRequest:
    """What an operator asks for. None keeps the pool's own value."""

    image: str
    cpus: float | None = None
    memory_mb: int | None = None
    share: float
    bake_s: float
    tolerance: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """The rollout of a new revision in a pool."""

    id: int
    pool_name: PoolName
    old: Revision
    new: Revision
    share: float
    bake_s: float
    tolerance: float
    state: RolloutState
    reason: str | None
    """Why the rollout is in its state."""
    waits_for: str | None
    """What a rollout that has not ended waits for."""
    started_by: str
    started_at: datetime
    canary_at: datetime | None
    ended_at: datetime | None
    comparison: Comparison | None
    """The last comparison; None before the first bot of the new revision."""

    def revision_of(self, arm: Arm) -> Revision:
        return self.new if arm is Arm.NEW else self.old
