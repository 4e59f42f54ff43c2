"""Statements of the recovery pass."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter

from botpool.domain.ids import PoolName
from botpool.domain.records import FencedSlot, SlotChange, StuckSlot
from botpool.domain.recovery import RecoveryLimits
from botpool.domain.states import SlotStatus
from botpool.store.statement import Statement, no_rows, record_of


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasedSlot(SlotChange):
    """A slot in release; `status` is its former one."""

    status: SlotStatus


def record_liveness(*, gap_s: float) -> Statement[datetime]:
    """Record that a replica is alive; the result is when the last gap over `gap_s` ended."""
    return Statement("record_liveness", {"gap_s": gap_s}, itemgetter("gap_ended_at"))


def list_stuck_slots(*, backends: Sequence[str], limits: RecoveryLimits) -> Statement[StuckSlot]:
    """List the slots that a recovery pass has to decide about."""
    return Statement(
        "list_stuck_slots",
        {
            "backends": list(backends),
            "deploying_timeout_s": limits.deploying_timeout_s,
            "heartbeat_freshness_s": limits.heartbeat_freshness_s,
            "max_resets": limits.max_resets,
        },
        record_of(StuckSlot),
    )


def count_live_bots() -> Statement[LiveBots]:
    """Count the deploying and running bots of each pool."""
    return Statement("count_live_bots", {}, record_of(LiveBots))


def raise_silence_alarm(*, pool_name: PoolName) -> Statement[SilenceAlarm]:
    """Raise the alarm of a pool unless it is raised already."""
    return Statement("raise_silence_alarm", {"pool_name": pool_name}, record_of(SilenceAlarm))


def end_silence_alarms(*, silent: Sequence[PoolName]) -> Statement[None]:
    """End the alarms of all pools except the silent ones."""
    return Statement("end_silence_alarms", {"silent": list(silent)}, no_rows)


def touch_slot(slot: FencedSlot, *, reason: str) -> Statement[None]:
    """Restart a deploying slot's time and count the skip. Fenced."""
    return Statement("touch_slot", _fence(slot) | {"reason": reason}, no_rows)


def release_orphaned_slot(slot: FencedSlot, *, reason: str) -> Statement[ReleasedSlot]:
    """Start the release of a slot whose bot has ended. Fenced."""
    return Statement(
        "release_orphaned_slot", _fence(slot) | {"reason": reason}, record_of(ReleasedSlot)
    )


def _fence(slot: FencedSlot) -> dict[str, object]:
    return {
        "slot_id": slot.slot_id,
        "assignment_id": slot.assignment_id,
        "version": slot.version,
    }
