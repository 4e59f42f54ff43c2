"""How many slots a pool keeps ready for bots that have not arrived yet."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

from botpool.domain.ids import PoolName


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmWindow:
    """A time of the week in which a pool keeps more slots ready."""

    days: tuple[int, ...]
    """Days of the week on which the window starts, from 0 (Monday)."""
    starts: str
    """Local time of day, `08:50`."""
    ends: str
    """Local time of day; at or before `starts`, the window ends on the next day."""
    timezone: str
    """A name of the IANA time zone database, `Europe/Berlin`."""
    hot: int = 0
    idle: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Warm:
    """The warm floors of a pool, as the section `warm` of its settings defines them."""

    hot: int = 0
    """Slots whose container runs without a bot."""
    idle: int = 0
    """Idle slots with a container, hot ones included."""
    windows: tuple[WarmWindow, ...] = ()
    ahead_of_schedule: bool = False
    """Whether scheduled bots raise the floor in time."""
    max_age_s: float = 3_600.0
    """After this time Botpool replaces a standby."""
    idle_ttl_s: float = 0.0
    """After this time Botpool removes surplus idle slots; 0: never."""
    handover_timeout_s: float = 3.0
    """How long a standby may take to accept its bot before the bot starts cold."""

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Read the warm floors of a pool's row; settings of another version may lack some."""
        windows = [
            WarmWindow(**{**window, "days": tuple(window["days"])})
            for window in stored.get("windows", ())
        ]
        return cls(**{**stored, "windows": tuple(windows)})

    @property
    def highest_hot(self) -> int:
        """The most hot slots that the floor or one of the windows asks for."""
        return max([self.hot, *(window.hot for window in self.windows)])

    @property
    def highest_idle(self) -> int:
        """The most idle slots that the floor or one of the windows asks for."""
        return max([self.idle, *(window.idle for window in self.windows)])


@dataclass(frozen=True, slots=True, kw_only=True)
class BookedStart:
    """A scheduled bot, for which a slot should be hot from a time until the bot takes it."""

    ready_from: datetime
    starts_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmPool:
    """The figures of a pool from which a replica decides about its standbys."""

    pool_name: PoolName
    backend: str
    warm: Warm
    max_size: int
    drained: bool
    bots_wait: bool
    """Whether bots of the pool wait for a slot."""
    size: int
    """All slots of the pool."""
    fresh: int
    """Standbys that the pool keeps."""
    fresh_ready: int
    """Standbys among them whose agent waits for a bot."""
    outdated: int
    """Standbys to replace: too old, or started with other settings."""
    stopping: int
    forced: int
    """Standbys that must stop: in a cordoned slot, or in a drained pool."""
    failing: int
    """Slots whose last start failed, and which wait before the next one."""
    free: int
    """Assignable slots without a standby."""
    booked: Sequence[BookedStart] = ()
    """The scheduled bots of the next hour, if they raise the floor."""
    now: datetime

    @property
    def room(self) -> int:
        """How many standbys the slots allow to start now."""
        return self.free + max(0, self.max_size - self.size)


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyChanges:
    """How many standbys of a pool to start and to stop now."""

    starts: int
    surplus: int


def standby_changes(pool: WarmPool, target: int) -> StandbyChanges:
    """Decide about the standbys of a pool, without regard to the pace of the refill.

    A replacement starts before the standby that it replaces stops, where there is room. The refill
    takes no slot while bots wait.
    """
    missing = max(0, target - pool.fresh - pool.failing)
    starts = 0 if pool.bots_wait or pool.drained else min(missing, pool.room)
    replaceable = max(0, pool.outdated - max(0, target - pool.fresh_ready))
    if not replaceable and pool.outdated and missing and not starts and not pool.stopping:
        replaceable = 1  # No room for the replacement: one at a time.
    return StandbyChanges(starts=starts, surplus=max(0, pool.fresh - target) + replaceable)
