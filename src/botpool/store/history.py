"""Statements about history: the record of every change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botpool.domain import reasons
from botpool.domain.ids import AssignmentId, BotId, SlotId
from botpool.domain.records import Change, HistoryRow
from botpool.store.statement import Statement, column, record_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRow:
    """The horizon of a read, and one change below it; None where no change is new."""

    horizon: int
    held_s: float | None
    """Age of the oldest visible change above the horizon."""
    change: Change | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OldestChange:
    id: int
    transaction: int


def list_bot_history(bot_id: BotId) -> Statement[HistoryRow]:
    """The history of a bot, oldest first."""
    return Statement("list_bot_history", {"bot_id": bot_id}, record_of(HistoryRow))


def list_slot_history(slot_id: SlotId, *, limit: int) -> Statement[HistoryRow]:
    """The history of a slot, newest first."""
    parameters = {"slot_id": slot_id, "limit": limit}
    return Statement("list_slot_history", parameters, record_of(HistoryRow))


def record_agent_events(
    assignment_id: AssignmentId, *, kinds: Sequence[str], data: Sequence[str]
) -> Statement[int]:
    """Write an agent's events to its bot's history, unless its assignment has ended."""
    parameters = {
        "assignment_id": assignment_id,
        "kinds": list(kinds),
        "data": list(data),
        "reason": reasons.REPORTED_BY_AGENT,
    }
    return Statement("record_agent_events", parameters, column("id", int))


def read_changes(*, since: int | None, until: int | None, limit: int) -> Statement[ChangeRow]:
    """The changes of transactions from `since` up to the horizon, at least one row."""
    parameters = {
        "since": None if since is None else str(since),
        "until": None if until is None else str(until),
        "limit": limit,
    }
    return Statement("read_changes", parameters, _change_row)


def find_oldest_change() -> Statement[OldestChange]:
    """The oldest change in history, with its transaction."""
    return Statement("find_oldest_change", {}, _oldest_change)


def _change_row(row: Mapping[str, Any]) -> ChangeRow:
    return ChangeRow(
        horizon=int(row["horizon"]),
        held_s=row["held_s"],
        change=None if row["id"] is None else _change(row),
    )


def _change(row: Mapping[str, Any]) -> Change:
    return Change(
        id=row["id"],
        transaction=int(row["xid"]),
        at=row["at"],
        kind=row["kind"],
        pool_name=row["pool_name"],
        bot_id=row["bot_id"],
        slot_id=row["slot_id"],
        slot_name=row["slot_name"],
        from_state=row["from_state"],
        to_state=row["to_state"],
        reason=row["reason"],
        correlation_id=row["correlation_id"],
        data=row["data"],
    )


def _oldest_change(row: Mapping[str, Any]) -> OldestChange:
    return OldestChange(id=row["id"], transaction=int(row["xid"]))
