"""Rows of history, for pages and for the event stream."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from botpool.domain.ids import AssignmentId, BotId, PoolName, SlotId, TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """One change in the history of a bot or a slot."""

    at: datetime
    kind: str
    from_state: str | None
    to_state: str | None
    slot_name: str | None
    reason: str
    data: Mapping[str, Any] | None
    bot_id: BotId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedHistoryRow(HistoryRow):
    """A row in a page of history."""

    id: int
    assignment_id: AssignmentId | None = None
    more: bool
    """Whether the history goes on after this row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A row of history as the event stream sends it."""

    id: int
    transaction: int
    at: datetime
    kind: str
    pool_name: PoolName | None
    bot_id: BotId | None
    slot_id: SlotId | None
    slot_name: str | None
    from_state: str | None
    to_state: str | None
    reason: str
    correlation_id: str | None
    data: Mapping[str, Any] | None
    tenant_id: TenantId | None = None
    """The tenant of the bot; None for changes without a bot, which only operators see."""
