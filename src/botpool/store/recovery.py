"""Statements of the recovery pass."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Unpack

from botpool.domain import reasons
from botpool.domain.fenced_slots import Fence, StuckSlot
from botpool.domain.ids import BotId, PoolName, SlotId
from botpool.domain.slots import SlotTransition
from botpool.domain.states import SlotStatus
from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSilence:
    """How many bots of a pool are silent within a window, and since when its alarm is raised."""

    pool_name: PoolName
    silence_alarm_at: datetime | None
    silent: int
    live: int
    """The deploying and running bots, and those that failed in the window."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetOutcome:
    """The status of a slot after its reset; `in_progress` while a replica still resets it."""

    slot_id: SlotId
    status: SlotStatus
    in_progress: bool


@query
def list_stuck_slots(
    *,
    backends: Sequence[str],
    deploying_timeout_s: float,
    heartbeat_freshness_s: float,
) -> list[StuckSlot]:
    """List the slots that a recovery pass has to decide about."""


@query
def measure_silence(
    *, late_s: float, window_s: float, gap_ended_at: datetime, exited: Sequence[SlotId]
) -> list[PoolSilence]:
    """Count the silent bots of each pool whose bots must send heartbeats."""


@query
def raise_silence_alarm(
    *, pool_name: PoolName, silent: int, live: int, reason: str = reasons.MASS_SILENCE
) -> datetime | None:
    """Raise the alarm of a pool; None if another replica has raised it."""


@query
def end_silence_alarm(
    *, pool_name: PoolName, raised_at: datetime, reason: str = reasons.SILENCE_ENDED
) -> PoolName | None:
    """End the alarm of a pool; None if another replica has ended it."""


@query
def record_stalled_bots(*, limit: int, reason: str = reasons.NO_MEDIA) -> list[BotId]:
    """Write a row of history for each bot that has stalled since it last recorded media."""


@query
def retry_resets_now(*, slot_ids: Sequence[SlotId]) -> None:
    """Make the resets of slots in `error` due now."""


@query
def list_reset_outcomes(*, slot_ids: Sequence[SlotId]) -> list[ResetOutcome]:
    """Read how the resets of slots went."""


@query
def touch_slot(*, reason: str, **fence: Unpack[Fence]) -> SlotId | None:
    """Restart a deploying slot's time and count the skip. Fenced."""


@query
def release_orphaned_slot(*, reason: str, **fence: Unpack[Fence]) -> SlotTransition | None:
    """Start the release of a slot whose bot has ended. Fenced."""
