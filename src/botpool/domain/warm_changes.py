"""What a pool needs to reach its warm floors: pure functions of its figures and its target."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from botpool.domain.warm import WarmPool
from botpool.domain.warm_target import WarmTarget, warm_target

_SAVED = timedelta(seconds=2)
"""How much unused time of the refill counts: a late round of a replica loses none of the rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmChanges:
    """The steps that bring a pool closer to its warm floors now."""

    starts: int
    """Standbys to start."""
    surplus: int
    """Standbys to stop."""
    prepares: int
    """Slots to give a container."""
    removals: int
    """Idle slots to remove."""

    @property
    def refills(self) -> int:
        return self.starts + self.prepares


def current_target(pool: WarmPool) -> WarmTarget:
    """Return the floors of a pool now, within its maximum; a drained pool has none."""
    if pool.drained:
        return WarmTarget(hot=0, idle=0, reason="drained")
    target = warm_target(pool.warm, pool.now, pool.booked)
    return WarmTarget(
        hot=min(target.hot, pool.max_size),
        idle=min(target.idle, pool.max_size),
        reason=target.reason,
    )


def warm_changes(pool: WarmPool) -> WarmChanges:
    """Decide what to do about the standbys and idle slots of a pool.

    A replacement starts before the standby that it replaces stops, where there is room. While bots
    wait for a slot, the refill takes none and no slot is removed.
    """
    target = current_target(pool)
    standbys = _wanted_standbys(pool, target)
    missing = max(0, standbys - pool.fresh - pool.failing)
    may_refill = not pool.bots_wait and not pool.drained
    allowed = refills_allowed(pool.warm.refill_per_minute, pool.refilled_until, pool.now)
    starts = min(missing, pool.room, allowed) if may_refill else 0
    prepares = min(_unprepared(pool, target, starts), allowed - starts) if may_refill else 0
    replaceable = max(0, pool.outdated - max(0, standbys - pool.fresh_ready))
    if not replaceable and pool.outdated and missing and not pool.room and not pool.stopping:
        replaceable = 1  # No room for the replacement: one at a time.
    return WarmChanges(
        starts=starts,
        surplus=max(0, pool.fresh - standbys) + replaceable,
        prepares=prepares,
        removals=min(pool.expired, max(0, pool.idle - target.idle)) if may_refill else 0,
    )


def _wanted_standbys(pool: WarmPool, target: WarmTarget) -> int:
    """Return how many standbys the pool needs now: one at least while its image is not pulled.

    Only the start of a container pulls an image on every backend. When this standby polls, the
    image is known, and the standby stops unless the floor of hot slots wants it.
    """
    pulls = target.idle > 0 and pool.unpulled > 0 and pool.warm.can_wait
    return max(target.hot, 1 if pulls else 0)


def _unprepared(pool: WarmPool, target: WarmTarget, starts: int) -> int:
    """Return how many slots must get a container for the floor of idle slots.

    New standbys take prepared slots first; the others get their container with their start.
    """
    ready = pool.prepared + pool.preparing + pool.failing + pool.fresh + pool.outdated
    new = max(0, starts - pool.prepared - pool.preparing)
    room = pool.unprepared + max(0, pool.max_size - pool.size) - new
    return max(0, min(target.idle - ready - new, room))


def refills_allowed(per_minute: float, until: datetime | None, now: datetime) -> int:
    """Return how many slots may be refilled now, if the rate is used up to a time.

    Claims do not change the rate, so the refill keeps its pace under load. A time in the future is
    left from a clock that was set back: it counts as unused.
    """
    return int((now - _used_until(per_minute, until, now)).total_seconds() * per_minute / 60 + 1e-6)


def refilled_until(per_minute: float, until: datetime | None, now: datetime, n: int) -> datetime:
    """Return the time up to which the rate is used up after so many more refills."""
    return _used_until(per_minute, until, now) + timedelta(seconds=n * 60 / per_minute)


def _used_until(per_minute: float, until: datetime | None, now: datetime) -> datetime:
    earliest = now - max(_SAVED, timedelta(seconds=60 / per_minute))
    if until is None or until > now:
        return earliest
    return max(until, earliest)
