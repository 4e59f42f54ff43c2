"""Records of bots, their data and the queue."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from botpool.client.records.reading import FROM, TO
from botpool.domain.states import FINAL


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedBy:
    """The API key that created a bot."""

    key_id: int
    key_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bot:
    """A bot as it was at the time of the response."""

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
    end_reason: str | None = None
    artifact_count: int = 0
    created_at: datetime
    queued_at: datetime | None
    assigned_at: datetime | None
    started_at: datetime | None
    last_heartbeat_at: datetime | None
    ended_at: datetime | None
    tenant: str
    created_by: CreatedBy | None
    stalled: bool = False
    """In the call and alive, but without media for the pool's `stalled_after_s`."""
    finishing_at: datetime | None = None
    """When the bot began to finish: after its call, it saves its recording."""
    join_at: datetime | None = None
    """When a scheduled bot joins."""
    reserved: bool | None = None
    """Whether a slot is reserved for a scheduled bot."""
    on_time_probability: float | None = None
    at_risk: str | None = None
    """Why a scheduled bot will probably be late; None while it will not."""
    queue_position: int | None = None
    """From 1, while the bot is QUEUED; None in lists of bots."""
    estimated_wait_ms: int | None = None
    progress: Mapping[str, Any] | None = field(default=None, hash=False)
    """The figures that the bot's heartbeats carried last; None in lists of bots."""
    last_media_at: datetime | None = None
    """When the bot last recorded media, if its heartbeats say so; None in lists of bots."""
    warning: str | None = None
    """Why the pool's backend fails; only in the response to the request for the bot."""

    @property
    def is_final(self) -> bool:
        """Whether the status is DONE, FAILED or CANCELLED, which never changes again."""
        return self.status in FINAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A file that a bot made; the bot's own storage has it."""

    kind: str
    location: str
    """The address of the file, or its key in the bot's storage."""
    size_bytes: int | None
    content_type: str | None
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Screenshot:
    """A screenshot that a bot's agent sent, without the picture."""

    number: int
    content_type: str
    size_bytes: int
    note: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command to a bot and how far it has come: waiting, delivered, acknowledged or lost."""

    id: int
    kind: str
    data: Mapping[str, Any]
    state: str
    at: datetime
    delivered_at: datetime | None
    acknowledged_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry:
    """A bot that waits for a slot."""

    bot_id: int
    platform: str
    priority: int
    position: int
    queued_at: datetime
    timeout_at: datetime
    estimated_wait_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineBar:
    """A phase of a bot; `ended_at` is None while the phase lasts."""

    phase: str
    began_at: datetime = field(metadata=FROM)
    ended_at: datetime | None = field(metadata=TO)
