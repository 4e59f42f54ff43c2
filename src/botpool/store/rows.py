"""Rows of the database as records of the domain."""

from collections.abc import Mapping
from typing import Any

from botpool.domain.records import (
    AgentView,
    Assignment,
    Bot,
    Pool,
    Slot,
)
from botpool.domain.states import BotStatus, FailureCode, SlotPhase, SlotStatus

_BOT_COLUMNS = tuple(Bot.__dataclass_fields__)


def _enum(row: Mapping[str, Any], **kinds: type) -> dict[str, Any]:
    """The row with its state columns as what they are; null stays null."""
    typed = dict(row)
    for column, kind in kinds.items():
        if typed[column] is not None:
            typed[column] = kind(typed[column])
    return typed


def to_bot(row: Mapping[str, Any]) -> Bot:
    return Bot(**_enum(row, status=BotStatus, failure_code=FailureCode))


def to_slot(row: Mapping[str, Any]) -> Slot:
    return Slot(**_enum(row, status=SlotStatus, phase=SlotPhase))


def to_pool(row: Mapping[str, Any]) -> Pool:
    return Pool(**row)


def to_assignment(row: Mapping[str, Any]) -> Assignment:
    return Assignment(**_enum(row, bot_status=BotStatus, failure_code=FailureCode))


def to_agent_view(row: Mapping[str, Any]) -> AgentView:
    bot = to_bot({column: row[column] for column in _BOT_COLUMNS})
    slot_status = row["slot_status"]
    return AgentView(
        assignment_id=row["assignment_id"],
        agent_container_id=row["agent_container_id"],
        slot_status=SlotStatus(slot_status) if slot_status else None,
        bot_data=row["bot_data"],
        leave_by=row["leave_by"],
        bot=bot,
    )
