"""How long a queued bot will wait and where it stands far back, from what was measured."""

import asyncio
import math
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from botpool.domain.decisions import estimate_wait_ms
from botpool.domain.ids import PoolName
from botpool.engine.runtime.clock import loop_time
from botpool.store.database import Database

T = TypeVar("T")
_FRESH_S = 0.5
_USABLE_S = 1.0
_COUNTED = 1000
"""So far positions are counted with the bot itself, and exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Occupancy:
    ends: int
    exposure_s: float
    slots: int


class _Measured(Generic[T]):
    """Measures a pool at most twice a second, however many ask.

    Who asks often does not wait for it: a little longer the last measure is told meanwhile.
    """

    def __init__(
        self,
        measure: Callable[[PoolName], Coroutine[Any, Any, T]],
        monotonic: Callable[[], float],
    ) -> None:
        self._measure = measure
        self._monotonic = monotonic
        self._known: dict[PoolName, tuple[float, T]] = {}
        self._under_way: dict[PoolName, asyncio.Task[T]] = {}

    async def of(self, pool_name: PoolName) -> T:
        known = self._known.get(pool_name)
        age_s = math.inf if known is None else self._monotonic() - known[0]
        if known is None or age_s > _USABLE_S:
            return await asyncio.shield(self._renewal(pool_name))
        if age_s > _FRESH_S:
            self._renewal(pool_name)
        return known[1]

    def _renewal(self, pool_name: PoolName) -> "asyncio.Task[T]":
        if (task := self._under_way.get(pool_name)) is None:
            task = asyncio.create_task(self._renew(pool_name))
            self._under_way[pool_name] = task
            task.add_done_callback(lambda ended: self._ended(pool_name, ended))
        return task

    async def _renew(self, pool_name: PoolName) -> T:
        began_at = self._monotonic()
        value = await self._measure(pool_name)
        self._known[pool_name] = (began_at, value)
        return value

    def _ended(self, pool_name: PoolName, task: "asyncio.Task[T]") -> None:
        del self._under_way[pool_name]
        if not task.cancelled():
            # Whoever waited has it; if nobody did, the next one asks again.
            task.exception()


class Estimates:
    def __init__(self, database: Database, *, monotonic: Callable[[], float] = loop_time) -> None:
        self._database = database
        self._occupancy = _Measured(self._measure_occupancy, monotonic)
        self._queue = _Measured(self._measure_queue, monotonic)

    async def wait_ms(self, pool_name: PoolName, position: int) -> int | None:
        measured = await self._occupancy.of(pool_name)
        return estimate_wait_ms(
            position, ends=measured.ends, exposure_s=measured.exposure_s, slots=measured.slots
        )

    async def far_position(self, pool_name: PoolName, priority: int) -> int:
        """Where a newcomer stands, behind more than were counted; up to a second old."""
        queue = await self._queue.of(pool_name)
        ahead = sum(bots for other, bots in queue.items() if other <= priority)
        return max(ahead, _COUNTED + 1)

    async def _measure_occupancy(self, pool_name: PoolName) -> _Occupancy:
        row = await self._database.fetch_one("measure_occupancy", {"pool_name": pool_name})
        assert row is not None, "an aggregate always has a row"
        return _Occupancy(**row)

    async def _measure_queue(self, pool_name: PoolName) -> Mapping[int, int]:
        rows = await self._database.fetch("measure_queue", {"pool_name": pool_name})
        return {row["priority"]: row["bots"] for row in rows}
