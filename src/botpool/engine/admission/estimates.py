"""Estimates for queued bots: the wait, and positions beyond the counted ones."""

import asyncio
import math
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Generic, TypeVar

from botpool.domain.ids import PoolName
from botpool.domain.wait_estimate import TenantQueue, estimate_wait_ms, position_among_tenants
from botpool.engine.runtime.clock import loop_time
from botpool.store.database import Database
from botpool.store.pools import Occupancy, measure_occupancy
from botpool.store.queue import QueuedBots, measure_queue, measure_waiting_tenants

T = TypeVar("T")
_FRESH_S = 0.5
_USABLE_S = 1.0
_COUNTED_POSITIONS = 1000
"""`settle_new_bots` counts positions exactly up to this one."""


class _CachedMeasure(Generic[T]):
    """Measures each pool at most twice a second, however many callers ask.

    A value older than `_FRESH_S` starts a new measurement but is still returned; a value older
    than `_USABLE_S` makes the caller wait for the new one.
    """

    def __init__(
        self,
        measure: Callable[[PoolName], Coroutine[Any, Any, T]],
        monotonic: Callable[[], float],
    ) -> None:
        self._measure = measure
        self._monotonic = monotonic
        self._measured: dict[PoolName, tuple[float, T]] = {}
        self._running: dict[PoolName, asyncio.Task[T]] = {}

    async def of(self, pool_name: PoolName) -> T:
        """Return the value of a pool, at most `_USABLE_S` old."""
        measured = self._measured.get(pool_name)
        age_s = math.inf if measured is None else self._monotonic() - measured[0]
        if measured is None or age_s > _USABLE_S:
            return await asyncio.shield(self._start_measurement(pool_name))
        if age_s > _FRESH_S:
            self._start_measurement(pool_name)
        return measured[1]

    def _start_measurement(self, pool_name: PoolName) -> "asyncio.Task[T]":
        """Return the running measurement of a pool, started if there is none."""
        if (task := self._running.get(pool_name)) is None:
            task = asyncio.create_task(self._run(pool_name))
            self._running[pool_name] = task
            task.add_done_callback(lambda done: self._finished(pool_name, done))
        return task

    async def _run(self, pool_name: PoolName) -> T:
        began_at = self._monotonic()
        value = await self._measure(pool_name)
        self._measured[pool_name] = (began_at, value)
        return value

    def _finished(self, pool_name: PoolName, task: "asyncio.Task[T]") -> None:
        del self._running[pool_name]
        if not task.cancelled():
            # Retrieve the exception: asyncio would log it if no caller waited for the task.
            task.exception()


class Estimates:
    """Estimates waits and far positions from figures that are at most a second old."""

    def __init__(self, database: Database, *, monotonic: Callable[[], float] = loop_time) -> None:
        self._database = database
        self._occupancy = _CachedMeasure(self._measure_occupancy, monotonic)
        self._queue = _CachedMeasure(self._measure_queue, monotonic)
        self._tenants = _CachedMeasure(self._measure_tenants, monotonic)

    async def wait_ms(self, pool_name: PoolName, tenant: str, position: int) -> int | None:
        """Estimate the wait of the bot at a position of its tenant's queue.

        None while no bot has had a slot.
        """
        occupancy = await self._occupancy.of(pool_name)
        waiting = await self._tenants.of(pool_name)
        return estimate_wait_ms(
            position_among_tenants(position, tenant, waiting),
            ends=occupancy.ends,
            exposure_s=occupancy.exposure_s,
            slots=occupancy.slots,
        )

    async def position_behind_counted(self, pool_name: PoolName, tenant: str, priority: int) -> int:
        """Return the position of a new bot that is behind all counted positions."""
        queued = await self._queue.of(pool_name)
        ahead = sum(
            each.bots for each in queued if each.tenant == tenant and each.priority <= priority
        )
        return max(ahead, _COUNTED_POSITIONS + 1)

    async def _measure_occupancy(self, pool_name: PoolName) -> Occupancy:
        return await measure_occupancy(self._database, pool_name=pool_name)

    async def _measure_queue(self, pool_name: PoolName) -> list[QueuedBots]:
        return await measure_queue(self._database, pool_name=pool_name)

    async def _measure_tenants(self, pool_name: PoolName) -> Mapping[str, TenantQueue]:
        waiting = await measure_waiting_tenants(self._database, pool_name=pool_name)
        return {each.tenant: TenantQueue(weight=each.weight, bots=each.bots) for each in waiting}
