"""Records of history and of the stream of changes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from botpool.client.records.reading import FROM, TO


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A row of a bot's history."""

    at: datetime
    kind: str
    from_state: str | None = field(metadata=FROM)
    to_state: str | None = field(metadata=TO)
    slot_name: str | None
    reason: str
    data: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotEvent(Event):
    """A row of a slot's history."""

    bot_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Event):
    """A change that the stream reports."""

    cursor: str
    """The position in the stream: `changes(after=...)` continues from here."""
    platform: str | None
    bot_id: int | None
    slot_id: int | None
    correlation_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """A gap in the stream: changes are missing, so load the current state again."""

    cursor: str
    reason: str
