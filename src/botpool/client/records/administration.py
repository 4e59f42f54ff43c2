"""Records of tenants, API keys and the audit log."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A tenant with its weight, its quotas (None: no limit) and its bots."""

    name: str
    weight: int
    max_live: int | None
    max_queued: int | None
    max_booked: int | None
    posts_per_minute: int | None
    live: int
    queued: int
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """An API key."""

    id: int
    name: str
    scope: str
    tenant: str
    prefix: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    overlap_ends_at: datetime | None
    min_priority: int
    secret: str | None = field(default=None, repr=False)
    """The key itself; only in the responses to the creation and to a rotation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One action of a key or a command."""

    id: int
    at: datetime
    actor: str
    actor_key_id: int | None
    tenant: str | None
    action: str
    target: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    address: str | None
    correlation_id: str | None
