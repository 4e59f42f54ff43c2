"""The events that webhooks deliver, and the rows of history from which they derive.

A row of history gives one event at most. Its id is the id of that row, so that it stays the same
over attempts, replicas and webhooks.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any


class EventType(StrEnum):
    """The types of events.

    - `bot.scheduled`: the bot waits for its `joinAt`
    - `bot.queued`: the bot waits for a slot, for the first time or after a failed start
    - `bot.started`: the bot's container runs, and the bot begins to join
    - `bot.joined`: the bot reached the meeting and waits to be admitted. A bot that is admitted at
      once has no such event
    - `bot.in_call`: the bot is in the call
    - `bot.call_ended`: the call is over; the bot may still save its recording
    - `bot.done`: the bot ended as planned
    - `bot.failed`: the bot failed
    - `bot.cancelled`: the bot was stopped before its end
    - `bot.at_risk`: the bot may not join in time
    - `bot.stalled`: the bot is in the call but has recorded nothing for the pool's
      `stalled_after_s`
    - `bot.artifact_added`: the bot listed a file
    - `pool.degraded`: many bots of a pool are silent, or the meetings' provider blocks bots
    """

    BOT_SCHEDULED = "bot.scheduled"
    BOT_QUEUED = "bot.queued"
    BOT_STARTED = "bot.started"
    BOT_JOINED = "bot.joined"
    BOT_IN_CALL = "bot.in_call"
    BOT_CALL_ENDED = "bot.call_ended"
    BOT_DONE = "bot.done"
    BOT_FAILED = "bot.failed"
    BOT_CANCELLED = "bot.cancelled"
    BOT_AT_RISK = "bot.at_risk"
    BOT_STALLED = "bot.stalled"
    BOT_ARTIFACT_ADDED = "bot.artifact_added"
    POOL_DEGRADED = "pool.degraded"


ENDED = frozenset({EventType.BOT_DONE, EventType.BOT_FAILED, EventType.BOT_CANCELLED})


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSource:
    """Rows of history that give an event: of a kind and, unless it is None, with a new state."""

    kind: str
    to_state: str | None
    type: EventType


def _status(status: str, event_type: EventType) -> EventSource:
    return EventSource(kind="bot.status", to_state=status, type=event_type)


SOURCES: Sequence[EventSource] = (
    _status("SCHEDULED", EventType.BOT_SCHEDULED),
    _status("QUEUED", EventType.BOT_QUEUED),
    _status("JOINING_CALL", EventType.BOT_STARTED),
    _status("IN_WAITING_ROOM", EventType.BOT_JOINED),
    _status("IN_CALL", EventType.BOT_IN_CALL),
    _status("CALL_ENDED", EventType.BOT_CALL_ENDED),
    _status("DONE", EventType.BOT_DONE),
    _status("FAILED", EventType.BOT_FAILED),
    _status("CANCELLED", EventType.BOT_CANCELLED),
    EventSource(kind="bot.at_risk", to_state=None, type=EventType.BOT_AT_RISK),
    EventSource(kind="bot.stalled", to_state=None, type=EventType.BOT_STALLED),
    EventSource(kind="bot.artifact", to_state=None, type=EventType.BOT_ARTIFACT_ADDED),
    EventSource(kind="pool.health", to_state="degraded", type=EventType.POOL_DEGRADED),
    EventSource(kind="egress.breaker", to_state="open", type=EventType.POOL_DEGRADED),
)
"""All sources of events. The first that fits a row decides its type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventRow:
    """A row of history with its event's type, and what the event shows of the bot."""

    history_id: int
    type: EventType
    at: datetime
    kind: str
    to_state: str | None
    reason: str
    data: Mapping[str, Any] | None
    bot_id: int | None
    pool_names: list[str]
    """The pool of the bot; for events of pools all that are affected."""
    tenant: str | None = None
    correlation_id: str | None = None
    bot_display_name: str | None = None
    slot_name: str | None = None
    failure_code: str | None = None
    failure_reason: str | None = None
    end_reason: str | None = None


def event_id(history_id: int) -> str:
    return f"evt_{history_id}"


def payload_of(row: EventRow) -> str:
    """Return the body of the request for an event. The meeting link is not part of it."""
    details = {**(row.data or {})}
    if row.bot_id is None:
        data: dict[str, Any] = {"platforms": row.pool_names, "reason": row.reason, **details}
        return _payload(row.type, row.at, data)
    data = {
        "botId": row.bot_id,
        "platform": row.pool_names[0] if row.pool_names else None,
        "tenant": row.tenant,
        "correlationId": row.correlation_id,
        "botDisplayName": row.bot_display_name,
        "slotName": row.slot_name,
        "reason": row.reason,
    }
    if row.kind == "bot.status":
        data["status"] = row.to_state
    if row.type in ENDED or row.type is EventType.BOT_CALL_ENDED:
        data["endReason"] = row.end_reason
    if row.type is EventType.BOT_FAILED:
        data |= {"failureCode": row.failure_code, "failureReason": row.failure_reason}
    if row.type is EventType.BOT_ARTIFACT_ADDED:
        data["artifact"] = details
    elif row.kind != "bot.status":
        data |= details
    return _payload(row.type, row.at, data)


def _payload(event_type: EventType, at: datetime, data: Mapping[str, Any]) -> str:
    timestamp = at.astimezone(UTC).isoformat().replace("+00:00", "Z")
    body = {"type": event_type.value, "timestamp": timestamp, "data": data}
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


_EXAMPLE_DETAILS: Mapping[EventType, Mapping[str, Any]] = {
    EventType.BOT_QUEUED: {"reason": "no slot was free", "slot_name": None},
    EventType.BOT_SCHEDULED: {"reason": "accepted", "slot_name": None},
    EventType.BOT_STARTED: {"reason": "its agent called"},
    EventType.BOT_CALL_ENDED: {"end_reason": "meeting_ended"},
    EventType.BOT_DONE: {"end_reason": "meeting_ended"},
    EventType.BOT_FAILED: {
        "end_reason": "denied",
        "failure_code": "meeting_failed",
        "failure_reason": "The host refused the bot.",
    },
    EventType.BOT_CANCELLED: {"reason": "stopped by its user", "end_reason": "left"},
    EventType.BOT_AT_RISK: {
        "reason": "no slot will be free in time",
        "slot_name": None,
        "data": {"joinAt": "2026-01-05T10:05:00Z"},
    },
    EventType.BOT_STALLED: {
        "reason": "it records nothing",
        "data": {"lastMediaAt": "2026-01-05T09:55:00.000000Z", "stalledAfterMs": 300000},
    },
    EventType.BOT_ARTIFACT_ADDED: {
        "data": {
            "number": 1,
            "kind": "recording",
            "location": "s3://recordings/2026/01/05/7.mp4",
            "sizeBytes": 73400320,
            "contentType": "video/mp4",
        }
    },
    EventType.POOL_DEGRADED: {
        "reason": "many bots are silent",
        "bot_id": None,
        "data": {"platform": "google-meet", "silent": 12, "live": 20},
    },
}


def example_of(event_type: EventType) -> EventRow:
    """Return the documented example of an event, which `test` sends."""
    source = next(each for each in SOURCES if each.type is event_type)
    values: dict[str, Any] = {
        "history_id": 4711,
        "type": event_type,
        "at": datetime(2026, 1, 5, 10, 0, 0, tzinfo=UTC),
        "kind": source.kind,
        "to_state": source.to_state,
        "reason": "reported by the agent",
        "data": None,
        "bot_id": 7,
        "pool_names": ["google-meet"],
        "tenant": "default",
        "correlation_id": "0d4f6c1e9a7b",
        "bot_display_name": "Scribe",
        "slot_name": "pool-google-meet-001",
    }
    return EventRow(**(values | dict(_EXAMPLE_DETAILS.get(event_type, {}))))
