"""How long a queued bot will wait and where it stands far back, from what was measured."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from botpool.domain.decisions import estimate_wait_ms
from botpool.domain.ids import Platform
from botpool.engine.loop_time import loop_time
from botpool.store.database import Database

T = TypeVar("T")
_FRESH_S = 1.0
_COUNTED = 1000
"""So far positions are counted with the bot itself, and exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Occupancy:
    ends: int
    exposure_s: float
    slots: int


class _Measured(Generic[T]):
    """Measures a pool at most once a second, however many ask."""

    def __init__(
        self,
        measure: Callable[[Platform], Coroutine[Any, Any, T]],
        monotonic: Callable[[], float],
    ) -> None:
        self._measure = measure
        self._monotonic = monotonic
        self._taken: dict[Platform, tuple[float, asyncio.Task[T]]] = {}

    async def of(self, platform: Platform) -> T:
        taken = self._taken.get(platform)
        if taken is None or not self._is_good(*taken):
            taken = (self._monotonic(), asyncio.create_task(self._measure(platform)))
            self._taken[platform] = taken
        return await asyncio.shield(taken[1])

    def _is_good(self, taken_at: float, measuring: "asyncio.Task[T]") -> bool:
        if not measuring.done():
            return True
        fresh = self._monotonic() - taken_at <= _FRESH_S
        return fresh and not measuring.cancelled() and measuring.exception() is None


class Estimates:
    def __init__(self, database: Database, *, monotonic: Callable[[], float] = loop_time) -> None:
        self._database = database
        self._occupancy = _Measured(self._measure_occupancy, monotonic)
        self._queue = _Measured(self._measure_queue, monotonic)

    async def wait_ms(self, platform: Platform, position: int) -> int | None:
        measured = await self._occupancy.of(platform)
        return estimate_wait_ms(
            position, ends=measured.ends, exposure_s=measured.exposure_s, slots=measured.slots
        )

    async def far_position(self, platform: Platform, priority: int) -> int:
        """Where a newcomer stands, behind more than were counted; up to a second old."""
        queue = await self._queue.of(platform)
        ahead = sum(bots for other, bots in queue.items() if other <= priority)
        return max(ahead, _COUNTED + 1)

    async def _measure_occupancy(self, platform: Platform) -> _Occupancy:
        row = await self._database.fetch_one("measure_occupancy", {"platform": platform})
        assert row is not None, "an aggregate always has a row"
        return _Occupancy(**row)

    async def _measure_queue(self, platform: Platform) -> Mapping[int, int]:
        rows = await self._database.fetch("measure_queue", {"platform": platform})
        return {row["priority"]: row["bots"] for row in rows}
