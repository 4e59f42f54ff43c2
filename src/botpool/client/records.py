"""What the API answers, as values. A server that adds a field breaks no client."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, TypeVar

from botpool.domain.states import FINAL

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bot:
    """A bot as it was when it was asked for."""

    id: int
    correlation_id: str
    platform: str
    meeting_url: str = field(repr=False)
    bot_display_name: str
    status: str
    priority: int
    slot_name: str | None
    container_id: str | None
    attempts: int
    failure_reason: str | None
    failure_code: str | None
    created_at: datetime
    queued_at: datetime | None
    assigned_at: datetime | None
    started_at: datetime | None
    last_heartbeat_at: datetime | None
    ended_at: datetime | None
    queue_position: int | None = None
    """From 1, while it is QUEUED; only of a bot that was asked for by itself."""
    estimated_wait_ms: int | None = None

    @property
    def is_final(self) -> bool:
        """DONE, FAILED or CANCELLED: it never changes again."""
        return self.status in FINAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A row of a bot's history."""

    at: datetime
    kind: str
    from_state: str | None
    to_state: str | None
    slot_name: str | None
    reason: str
    data: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Event):
    """An event of the stream."""

    cursor: str
    """Where the stream stands after it: `changes(after=...)` goes on from here."""
    platform: str | None
    bot_id: int | None
    slot_id: int | None
    correlation_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """What follows in the stream does not continue what came before: load the state again."""

    cursor: str
    reason: str


_NAMES = {"from_state": "from", "to_state": "to"}


def read(kind: type[T], body: Mapping[str, Any], **more: Any) -> T:
    """The record in an answer. Fields that it does not know are left out; `more` is added."""
    found = {}
    for each in fields(kind):  # type: ignore[arg-type] # only dataclasses are asked for
        name = _NAMES.get(each.name, _camel(each.name))
        if name in body:
            is_time = each.name == "at" or each.name.endswith("_at")
            value = body[name]
            found[each.name] = datetime.fromisoformat(value) if is_time and value else value
    return kind(**found, **more)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)
