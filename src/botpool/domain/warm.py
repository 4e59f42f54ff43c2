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
    """After this time without a bot Botpool removes surplus idle slots; 0: never."""
    refill_per_minute: float = 600.0
    """How many standbys Botpool starts, and idle slots it prepares, in a minute."""
    can_wait: bool = True
    """Whether the pool's containers can run without a bot: they have the agent of Botpool."""
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
    """The figures of a pool from which a replica decides about its standbys and idle slots."""

    pool_name: PoolName
    backend: str
    warm: Warm
    max_size: int
    drained: bool
    bots_wait: bool
    """Whether bots wait that could have a slot: no quota and no pace holds them back."""
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
    prepared: int
    """Idle slots without a standby whose container exists, with the pool's image."""
    unpulled: int
    """Prepared slots whose image is not known on their image host."""
    preparing: int
    """Idle slots that get a container now."""
    unprepared: int
    """Other assignable slots, without a container or with one of another image."""
    idle: int
    """All idle slots that take bots, with and without a container or a standby."""
    expired: int
    """Idle slots without a standby and without a bot for longer than `idle_ttl_s`."""
    refilled_until: datetime | None
    """Up to this time the rate of the refill is used up."""
    booked: Sequence[BookedStart] = ()
    """The scheduled bots of the next hour, if they raise the floor."""
    now: datetime

    @property
    def room(self) -> int:
        """How many standbys the slots allow to start now."""
        return self.free + max(0, self.max_size - self.size)
