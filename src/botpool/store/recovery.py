"""Statements of the recovery pass."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Unpack

from botpool.domain.ids import PoolName, SlotId
from botpool.domain.records import Fence, SlotTransition, StuckSlot
from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBots:
    """The number of a pool's bots that should send heartbeats."""

    pool_name: PoolName
    live: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SilenceAlarm:
    """Since when most bots of a pool are silent, and the database's time."""

    silence_alarm_at: datetime
    now: datetime


@query
def record_liveness(*, gap_s: float) -> datetime:
    """Record that a replica is alive; the result is when the last gap over `gap_s` ended."""


@query
def list_stuck_slots(
    *,
    backends: Sequence[str],
    deploying_timeout_s: float,
    heartbeat_freshness_s: float,
    max_resets: int,
) -> list[StuckSlot]:
    """List the slots that a recovery pass has to decide about."""


@query
def count_live_bots() -> list[LiveBots]:
    """Count the deploying and running bots of each pool."""


@query
def raise_silence_alarm(*, pool_name: PoolName) -> SilenceAlarm:
    """Raise the alarm of a pool unless it is raised already."""


@query
def end_silence_alarms(*, silent: Sequence[PoolName]) -> None:
    """End the alarms of all pools except the silent ones."""


@query
def touch_slot(*, reason: str, **fence: Unpack[Fence]) -> SlotId | None:
    """Restart a deploying slot's time and count the skip. Fenced."""


@query
def release_orphaned_slot(*, reason: str, **fence: Unpack[Fence]) -> SlotTransition | None:
    """Start the release of a slot whose bot has ended. Fenced."""
