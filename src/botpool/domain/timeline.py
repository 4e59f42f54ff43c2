"""The timeline of a bot: bars of its phases, derived from its history."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from botpool.domain.history import HistoryRow
from botpool.domain.states import FINAL, BotStatus, SlotPhase, SlotStatus


class Phase(StrEnum):
    SCHEDULED = "scheduled"
    WAITING = "waiting"
    CREATING = "creating"
    IMAGE = "image"
    STARTING = "starting"
    JOINING = "joining"
    IN_CALL = "in_call"
    FINISHING = "finishing"
    RELEASING = "releasing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One phase of a bot, from when to when."""

    phase: Phase
    began_at: datetime
    ended_at: datetime | None
    """None while the phase lasts."""


_PHASE_OF_BOT_STATUS: Mapping[str, Phase] = {
    BotStatus.SCHEDULED: Phase.SCHEDULED,
    BotStatus.PENDING: Phase.WAITING,
    BotStatus.QUEUED: Phase.WAITING,
    BotStatus.DEPLOYING: Phase.CREATING,
    BotStatus.JOINING_CALL: Phase.JOINING,
    BotStatus.IN_WAITING_ROOM: Phase.JOINING,
    BotStatus.IN_CALL: Phase.IN_CALL,
    BotStatus.CALL_ENDED: Phase.FINISHING,
}
"""Without LEAVING: a bot that was asked to leave stays in its phase until it leaves."""

_PHASE_OF_SLOT_PHASE: Mapping[str, Phase] = {
    SlotPhase.CREATING: Phase.CREATING,
    SlotPhase.WAITING_FOR_IMAGE: Phase.IMAGE,
    SlotPhase.WAITING_FOR_START: Phase.STARTING,
    SlotPhase.STARTING: Phase.STARTING,
}

_FREED = frozenset({SlotStatus.IDLE, SlotStatus.ERROR})


def timeline(history: Iterable[HistoryRow]) -> list[Bar]:
    """Return the bars of a history, oldest first. A retry gets bars of its own."""
    bars: list[Bar] = []
    current: Bar | None = None
    for row in history:
        next_phase = _next_phase(row, current.phase if current else None)
        if current is not None and next_phase is not current.phase:
            if row.at > current.began_at:
                bars.append(Bar(phase=current.phase, began_at=current.began_at, ended_at=row.at))
            current = None
        if current is None and next_phase is not None:
            current = Bar(phase=next_phase, began_at=row.at, ended_at=None)
    return [*bars, current] if current else bars


def _next_phase(row: HistoryRow, current: Phase | None) -> Phase | None:
    """Return the phase after this row; None if the bot is in no phase."""
    if row.to_state is None:
        return current
    match row.kind:
        case "bot.status" if row.to_state in FINAL:
            # The release of the slot continues after the end of its bot.
            return current if current is Phase.RELEASING else None
        case "bot.status":
            return _PHASE_OF_BOT_STATUS.get(row.to_state, current)
        case "bot.phase" if row.to_state == Phase.FINISHING:
            return Phase.FINISHING
        case "slot.phase":
            return _PHASE_OF_SLOT_PHASE.get(row.to_state, current)
        case "slot.status" if row.to_state == SlotStatus.RELEASING:
            return Phase.RELEASING
        case "slot.status" if row.to_state in _FREED:
            return None
        case _:
            return current
