"""Statements about pools: their settings, their size and their figures."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from botpool.domain import reasons
from botpool.domain.communication import LeaveBy, Outcome
from botpool.domain.ids import PoolName
from botpool.domain.pools import Pool, PoolSample
from botpool.domain.slots import SlotChange, SlotTransition
from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolDrain:
    """When a pool was drained; None while it admits bots."""

    drained_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SurplusSlot(SlotTransition):
    """A slot that its pool deletes."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """How long bots keep the slots of a pool.

    `exposure_s` is the total time of the recent finished assignments and of those under way,
    `ends` the number of finished ones, `slots` the number of slots under way.
    """

    ends: int
    exposure_s: float
    slots: int


@query
def lock_pool(*, pool_name: PoolName) -> None:
    """Take the pool's lock until the transaction ends."""


@query
def find_pool(*, pool_name: PoolName) -> PoolDrain | None:
    """Read whether a pool exists and admits bots."""


@query
def shrink_pool(
    *,
    pool_name: PoolName,
    delete_requested_reason: str = reasons.DELETION_REQUESTED,
    backend_changed_reason: str = reasons.POOL_CHANGED_BACKEND,
    above_maximum_reason: str = reasons.ABOVE_MAXIMUM,
) -> list[SurplusSlot]:
    """Mark slots without a bot for deletion where the pool no longer wants them."""


@query
def grow_pool(*, pool_name: PoolName, reason: str = reasons.POOL_GREW) -> list[SlotChange]:
    """Create a slot for each bot that still waits after a match, within the pool's maximum."""


@query
def list_pools(*, pool_name: PoolName | None) -> list[Pool]:
    """Pools with their figures; all of them without a name."""


@query
def list_pool_samples(*, pool_name: PoolName, minutes: int) -> list[PoolSample]:
    """A pool's last minutes, oldest first."""


@query
def measure_occupancy(*, pool_name: PoolName) -> Occupancy:
    """How long bots keep the slots of a pool."""


@query
def register_backends(*, backends: Sequence[str]) -> None:
    """Create the rows that replicas share about their backends."""


@query
def upsert_pool(
    *,
    pool_name: PoolName,
    backend: str,
    image: str,
    max_size: int,
    heartbeats: str,
    cpus: float,
    memory_mb: int,
    stalled_after_s: float,
    reservable: float,
    hold_s: float | None,
    egress: str | None,
    outcome: Outcome,
    leave: LeaveBy,
    finish_timeout_s: float,
    stop_grace_s: float,
    warm: Mapping[str, Any],
    handover_timeout_s: float,
) -> PoolName | None:
    """Write a pool's settings; returns the pool's name if they changed."""


@query
def drain_pool(
    *, pool_name: PoolName, drained: bool, reason: str, correlation_id: str | None
) -> PoolName | None:
    """Drain a pool or end its drain; returns the pool's name, or no row for an unknown pool."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFigures:
    """The state of a pool for the metrics."""

    pool_name: PoolName
    max_size: int
    mass_silence: bool
    slots_by_status: Mapping[str, int]
    assignable: int
    unconfirmed_stops: int
    queue_depth: int
    oldest_wait_s: float
    stalled: int


@query
def measure_pools() -> list[PoolFigures]:
    """Read the figures of all pools."""


@query
def record_pool_sample(*, kept_h: int) -> None:
    """Record the state of all pools in this minute and delete samples older than `kept_h`."""
