"""Watches the database's clock for jumps.

All times come from the database's clock. The watch compares how far this clock and the monotonic
clock of the process have advanced between two rounds. A suspended machine looks like a jump
forward, and so does a failover to a server with another time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

import structlog

from botpool.engine.runtime.clock import loop_time
from botpool.store.clock import read_clock, record_clock_jump
from botpool.store.database import Database

_log = structlog.get_logger()
_MIN_JUMP_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """The database's time, which was read between two times of the process."""

    asked_s: float
    answered_s: float
    database: datetime


class ClockWatch:
    """Detects, logs and records jumps of the database's clock."""

    def __init__(
        self,
        database: Database,
        *,
        on_jump: Callable[[float], None],
        monotonic: Callable[[], float] = loop_time,
    ) -> None:
        self._database = database
        self._on_jump = on_jump
        """Called with the seconds of a jump; positive if the clock jumped forward."""
        self._monotonic = monotonic
        self._last: _Reading | None = None

    async def check(self) -> None:
        """Read both clocks, and report a jump since the last round."""
        asked_s = self._monotonic()
        database = await read_clock(self._database)
        reading = _Reading(asked_s=asked_s, answered_s=self._monotonic(), database=database)
        last, self._last = self._last, reading
        seconds = 0.0 if last is None else _jump_s(last, reading)
        if abs(seconds) >= _MIN_JUMP_S:
            _log.error("database.clock_jumped", seconds=round(seconds, 1))
            self._on_jump(seconds)
            await record_clock_jump(self._database, seconds=seconds)


def _jump_s(last: _Reading, reading: _Reading) -> float:
    """Return the smallest jump that explains both readings; a slow answer is no jump."""
    advanced_s = (reading.database - last.database).total_seconds()
    at_least_s = reading.asked_s - last.answered_s
    at_most_s = reading.answered_s - last.asked_s
    if advanced_s > at_most_s:
        return advanced_s - at_most_s
    return min(advanced_s - at_least_s, 0.0)
