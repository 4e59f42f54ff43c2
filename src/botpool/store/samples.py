"""Statements that measure pools for metrics and charts."""

from collections.abc import Mapping
from dataclasses import dataclass

from botpool.domain.ids import PoolName
from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFigures:
    """The state of a pool for the metrics."""

    pool_name: PoolName
    max_size: int
    slots_by_status: Mapping[str, int]
    assignable: int
    queue_depth: int
    oldest_wait_s: float


@query
def measure_pools() -> list[PoolFigures]:
    """Read the figures of all pools."""


@query
def record_pool_sample(*, kept_h: int) -> None:
    """Record the state of all pools in this minute and delete samples older than `kept_h`."""
