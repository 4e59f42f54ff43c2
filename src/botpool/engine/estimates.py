"""How long a queued bot will wait, from what was measured of its pool."""

from collections.abc import Callable
from dataclasses import dataclass

from botpool.domain.decisions import estimate_wait_ms
from botpool.domain.ids import Platform
from botpool.engine.loop_time import loop_time
from botpool.store.database import Database

_FRESH_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    at: float
    ends: int
    exposure_s: float
    slots: int


class Estimates:
    """Measures a pool at most once a second, however many ask."""

    def __init__(self, database: Database, *, monotonic: Callable[[], float] = loop_time) -> None:
        self._database = database
        self._monotonic = monotonic
        self._measured: dict[Platform, _Measured] = {}

    async def wait_ms(self, platform: Platform, position: int) -> int | None:
        measured = self._measured.get(platform)
        if measured is None or self._monotonic() - measured.at > _FRESH_S:
            measured = await self._measure(platform)
        return estimate_wait_ms(
            position, ends=measured.ends, exposure_s=measured.exposure_s, slots=measured.slots
        )

    async def _measure(self, platform: Platform) -> _Measured:
        row = await self._database.fetch_one("measure_occupancy", {"platform": platform})
        assert row is not None, "an aggregate always has a row"
        measured = _Measured(at=self._monotonic(), **row)
        self._measured[platform] = measured
        return measured
