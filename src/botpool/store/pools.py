"""Statements about pools: their settings, their size and their figures."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from botpool.domain import reasons
from botpool.domain.ids import PoolName
from botpool.domain.records import Pool, PoolSample, PoolSpec, SlotChange
from botpool.domain.states import SlotStatus
from botpool.store.statement import Statement, column, no_rows, record_of


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSettings:
    """The settings of a pool that decide whether it admits bots."""

    pool_name: PoolName
    backend: str
    max_size: int
    drained_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SurplusSlot(SlotChange):
    """A slot that its pool deletes; `status` is its status before."""

    status: SlotStatus
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedSlot(SlotChange):
    """A slot by which its pool grew; it has no container yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """How long bots keep the slots of a pool.

    `exposure_s` is the total time of the recent finished assignments and of those under way,
    `ends` the number of finished ones, `slots` the number of slots under way.
    """

    ends: int
    exposure_s: float
    slots: int


def lock_pool(pool_name: PoolName) -> Statement[None]:
    """Take the pool's lock until the transaction ends."""
    return Statement("lock_pool", {"pool_name": pool_name}, no_rows)


def find_pool(pool_name: PoolName) -> Statement[PoolSettings]:
    """A pool's settings."""
    return Statement("find_pool", {"pool_name": pool_name}, record_of(PoolSettings))


def shrink_pool(pool_name: PoolName) -> Statement[SurplusSlot]:
    """Mark slots without a bot for deletion where the pool no longer wants them."""
    parameters = {
        "pool_name": pool_name,
        "delete_requested_reason": reasons.DELETION_REQUESTED,
        "backend_changed_reason": reasons.POOL_CHANGED_BACKEND,
        "above_maximum_reason": reasons.ABOVE_MAXIMUM,
    }
    return Statement("shrink_pool", parameters, record_of(SurplusSlot))


def grow_pool(pool_name: PoolName) -> Statement[CreatedSlot]:
    """Create a slot for each bot that still waits after a match, within the pool's maximum."""
    parameters = {"pool_name": pool_name, "reason": reasons.POOL_GREW}
    return Statement("grow_pool", parameters, record_of(CreatedSlot))


def list_pools(pool_name: PoolName | None) -> Statement[Pool]:
    """Pools with their figures; all of them without a name."""
    return Statement("list_pools", {"pool_name": pool_name}, record_of(Pool))


def list_pool_samples(pool_name: PoolName, *, minutes: int) -> Statement[PoolSample]:
    """A pool's last minutes, oldest first."""
    parameters = {"pool_name": pool_name, "minutes": minutes}
    return Statement("list_pool_samples", parameters, record_of(PoolSample))


def measure_occupancy(pool_name: PoolName) -> Statement[Occupancy]:
    """How long bots keep the slots of a pool."""
    return Statement("measure_occupancy", {"pool_name": pool_name}, record_of(Occupancy))


def register_backends(backends: Sequence[str]) -> Statement[None]:
    """Create the rows that replicas share about their backends."""
    return Statement("register_backends", {"backends": list(backends)}, no_rows)


def upsert_pool(spec: PoolSpec) -> Statement[PoolName]:
    """Write a pool's settings; returns the pool's name if they changed."""
    return Statement("upsert_pool", asdict(spec), column("pool_name", PoolName))


def drain_pool(
    pool_name: PoolName, *, drained: bool, reason: str, correlation_id: str | None
) -> Statement[PoolName]:
    """Drain a pool or end its drain; returns the pool's name, or no row for an unknown pool."""
    parameters = {
        "pool_name": pool_name,
        "drained": drained,
        "reason": reason,
        "correlation_id": correlation_id,
    }
    return Statement("drain_pool", parameters, column("pool_name", PoolName))
