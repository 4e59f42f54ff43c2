"""How many slots a pool keeps ready for bots that have not arrived yet."""

from dataclasses import dataclass


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

    @property
    def highest_hot(self) -> int:
        """The most hot slots that the floor or one of the windows asks for."""
        return max([self.hot, *(window.hot for window in self.windows)])

    @property
    def highest_idle(self) -> int:
        """The most idle slots that the floor or one of the windows asks for."""
        return max([self.idle, *(window.idle for window in self.windows)])
