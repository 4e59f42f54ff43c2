"""The warm floors of a pool as operators see them: target, actual number and reason."""

from dataclasses import dataclass

from botpool.domain.warm import WarmPool
from botpool.domain.warm_changes import current_target


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmFloors:
    """How many slots a pool should have ready, how many it has, and why."""

    hot_target: int
    hot_ready: int
    hot_starting: int
    idle_target: int
    idle_ready: int
    """Slots with a container and their image on disk, hot ones included."""
    reason: str
    problem: str | None
    """Why a target is not reached; None if the refill is under way."""


def warm_floors(pool: WarmPool) -> WarmFloors:
    """Compare the target of a pool with its slots."""
    target = current_target(pool)
    hot = pool.fresh_ready + pool.outdated
    idle = pool.prepared - pool.unpulled + hot
    reached = hot >= target.hot and idle >= target.idle
    return WarmFloors(
        hot_target=target.hot,
        hot_ready=hot,
        hot_starting=pool.fresh - pool.fresh_ready,
        idle_target=target.idle,
        idle_ready=idle,
        reason=target.reason,
        problem=None if reached else _problem(pool),
    )


def _problem(pool: WarmPool) -> str | None:
    if pool.failing:
        return f"{pool.failing} slots failed to start and wait before the next attempt"
    if pool.bots_wait:
        return "bots wait for slots and go first"
    if not pool.room and not pool.fresh - pool.fresh_ready and not pool.preparing:
        return f"the pool is full: all {pool.max_size} slots exist"
    return None
