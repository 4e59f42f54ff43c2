"""Statements about history: the record of every change."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botpool.domain import reasons
from botpool.domain.history import Change, HistoryRow, ListedHistoryRow
from botpool.domain.ids import AssignmentId, BotId, SlotId
from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentEvent:
    """An event that an agent sent."""

    data: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRow:
    """The horizon of a read, and one change below it; None where no change is new."""

    epoch: int
    """The first assignment id of the database's newest epoch; 0 before the first one."""
    horizon: int
    held_s: float | None
    """Age of the oldest visible change above the horizon."""
    change: Change | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OldestChange:
    id: int
    transaction: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EventsOutcome:
    """Whether an agent's events were written, and else which limit they exceed."""

    recorded: int
    accepted: bool
    too_many: bool
    too_large: bool
    wait_s: float
    """The time until the rate allows these events."""


@query
def list_bot_history(
    *, bot_id: BotId, after: int, limit: int, max_bytes: int
) -> list[ListedHistoryRow]:
    """A page of a bot's history, oldest first."""


@query
def list_newest_bot_history(
    *, bot_id: BotId, before: int, limit: int, max_bytes: int
) -> list[ListedHistoryRow]:
    """A page of a bot's history, newest first."""


@query
def list_bot_transitions(*, bot_id: BotId) -> list[HistoryRow]:
    """The transitions of a bot and its slots, oldest first, without the events of its agents."""


@query
def list_slot_history(
    *, slot_id: SlotId, before: int, last_assignment: AssignmentId, limit: int, max_bytes: int
) -> list[ListedHistoryRow]:
    """A page of a slot's history, newest first."""


@query
def find_agent_event(*, assignment_id: AssignmentId, kind: str) -> AgentEvent | None:
    """The data of the last event of a kind that the agent of an assignment sent."""


@query
def record_agent_events(
    *,
    assignment_id: AssignmentId,
    kinds: Sequence[str],
    data: Sequence[str],
    max_events: int,
    max_bytes: int,
    per_minute: int,
    burst: int,
    reason: str = reasons.REPORTED_BY_AGENT,
) -> EventsOutcome | None:
    """Write an agent's events, unless they exceed a limit; None if its assignment has ended."""


@query
def read_changes(*, since: int | None, until: int | None, limit: int) -> list[ChangeRow]:
    """The changes of transactions from `since` up to the horizon, at least one row."""


@query
def find_oldest_change() -> OldestChange | None:
    """The oldest change in history, with its transaction."""
