"""Pools and their figures, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from botpool.domain.communication import LeaveBy, Outcome
from botpool.domain.ids import PoolName
from botpool.domain.pacing import EgressState, Pacing
from botpool.domain.warm import Warm


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSpec:
    """A pool as the settings define it."""

    pool_name: PoolName
    backend: str
    image: str
    max_size: int
    heartbeats: str
    cpus: float = 1.0
    memory_mb: int = 2048
    stalled_after_s: float = 0.0
    reservable: float = 0.8
    hold_s: float | None = None
    pacing: Pacing | None = None
    outcome: Outcome = Outcome.REPORT
    leave: LeaveBy = LeaveBy.HEARTBEAT
    finish_timeout_s: float = 900.0
    stop_grace_s: float = 30.0
    warm: Warm = field(default_factory=Warm)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool with its sizes, its queue and its times."""

    pool_name: PoolName
    backend: str
    image: str
    configured_image: str | None
    """The image in the settings, if a promoted rollout replaced it."""
    max_size: int
    heartbeats: str
    drained_at: datetime | None
    size: int
    slots_by_status: Mapping[str, int]
    unconfirmed_stops: int
    """Releasing slots whose stop cannot be confirmed."""
    queue_depth: int
    oldest_wait_ms: int | None
    warm_ratio: float | None
    time_to_running_p50_ms: int | None
    time_to_running_p95_ms: int | None
    pacing: EgressState | None
    """The pace of the pool's egress; None if the pool is not paced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSample:
    """The figures of a pool in one minute; null where no replica recorded them."""

    at: datetime
    arrivals: int
    queue_depth: int | None
    slots: Mapping[str, int] | None
    time_to_running_p50_ms: int | None
    time_to_running_p95_ms: int | None
