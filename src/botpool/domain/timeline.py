"""A bot's life as bars: what it was doing, from when to when. Derived from its history alone."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from botpool.domain.records import HistoryRow
from botpool.domain.states import FINAL, BotStatus, SlotPhase, SlotStatus


class Phase(StrEnum):
    WAITING = "waiting"
    CREATING = "creating"
    IMAGE = "image"
    STARTING = "starting"
    JOINING = "joining"
    IN_CALL = "in_call"
    RELEASING = "releasing"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    phase: Phase
    began_at: datetime
    ended_at: datetime | None
    """None while it lasts."""


_BEGUN_BY_BOT: Mapping[str, Phase] = {
    BotStatus.PENDING: Phase.WAITING,
    BotStatus.QUEUED: Phase.WAITING,
    BotStatus.DEPLOYING: Phase.CREATING,
    BotStatus.JOINING_CALL: Phase.JOINING,
    BotStatus.IN_WAITING_ROOM: Phase.JOINING,
    BotStatus.IN_CALL: Phase.IN_CALL,
    BotStatus.CALL_ENDED: Phase.RELEASING,
}
"""LEAVING is missing: who was asked to leave still joins, or still is in the call."""

_BEGUN_BY_PHASE: Mapping[str, Phase] = {
    SlotPhase.CREATING: Phase.CREATING,
    SlotPhase.WAITING_FOR_IMAGE: Phase.IMAGE,
    SlotPhase.WAITING_FOR_START: Phase.STARTING,
    SlotPhase.STARTING: Phase.STARTING,
}

_FREED = frozenset({SlotStatus.IDLE, SlotStatus.ERROR})


def timeline(history: Iterable[HistoryRow]) -> list[Bar]:
    """The bars of a history, oldest first; each try has its own. What took no time has no bar."""
    bars: list[Bar] = []
    current: Bar | None = None
    for row in history:
        following = _following(row, current.phase if current else None)
        if current is not None and following is not current.phase:
            if row.at > current.began_at:
                bars.append(Bar(phase=current.phase, began_at=current.began_at, ended_at=row.at))
            current = None
        if current is None and following is not None:
            current = Bar(phase=following, began_at=row.at, ended_at=None)
    return [*bars, current] if current else bars


def _following(row: HistoryRow, current: Phase | None) -> Phase | None:
    """The phase after this row; None: nothing more happens to the bot for now."""
    if row.to_state is None:
        return current
    match row.kind:
        case "bot.status" if row.to_state in FINAL:
            # A slot that is being released goes on with that, whatever its bot has become.
            return current if current is Phase.RELEASING else None
        case "bot.status":
            return _BEGUN_BY_BOT.get(row.to_state, current)
        case "slot.phase":
            return _BEGUN_BY_PHASE.get(row.to_state, current)
        case "slot.status" if row.to_state == SlotStatus.RELEASING:
            return Phase.RELEASING
        case "slot.status" if row.to_state in _FREED:
            return None
        case _:
            return current
