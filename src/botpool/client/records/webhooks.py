"""Records of webhooks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """An address that gets events."""

    id: int
    url: str
    description: str
    events: list[str] | None
    """The types of events that it gets; None: all."""
    tenant: str | None
    """The only tenant whose events it gets; None: all."""
    status: str
    """`active`, `failing` or `disabled`."""
    disabled_at: datetime | None
    disabled_reason: str | None
    failing_since: datetime | None
    last_delivered_at: datetime | None
    overlap_ends_at: datetime | None
    pending: int
    failed: int
    created_at: datetime
    created_by: str
    secret: str | None = field(default=None, repr=False)
    """Verifies signatures; only in the responses to the creation and to a rotation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """An event for a webhook, with its last attempt."""

    id: int
    event_id: str
    type: str
    bot_id: int | None
    status: str
    """`pending`, `delivered` or `failed`."""
    attempts: int
    created_at: datetime
    last_attempt_at: datetime | None
    next_attempt_at: datetime | None
    duration_ms: int | None
    request: Mapping[str, Any] = field(hash=False)
    response: Mapping[str, Any] | None = field(hash=False)
    """The status and the start of the answer; None without an answer."""
    problem: str | None
