"""Tenants and their API keys, as plain values."""

from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict

from botpool.domain.callers import Caller
from botpool.domain.ids import TenantId


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """An API key without its secret."""

    id: int
    name: str
    scope: str
    tenant_id: TenantId
    tenant: str
    """The tenant's name."""
    prefix: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    overlap_ends_at: datetime | None
    min_priority: int
    """The lowest priority number that requests with this key may have."""
    posts_per_minute: int | None = None
    """The tenant's quota of requests for bots; read with a key that authenticates a request."""

    @property
    def caller(self) -> Caller:
        """The caller of a request that was sent with this key."""
        return Caller(
            key_id=self.id,
            key_name=self.name,
            scope=self.scope,
            tenant_id=self.tenant_id,
            tenant=self.tenant,
            min_priority=self.min_priority,
            posts_per_minute=self.posts_per_minute,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A tenant with its weight, its quotas (None: no limit) and its current bots."""

    id: TenantId
    name: str
    weight: int
    max_live: int | None
    max_queued: int | None
    max_booked: int | None
    posts_per_minute: int | None
    created_at: datetime
    live: int
    """Bots in slots."""
    queued: int
    """Bots in queues."""


class TenantChanges(TypedDict, total=False):
    """The new values of a tenant; an absent one stays as it is."""

    weight: int
    max_live: int | None
    max_queued: int | None
    max_booked: int | None
    posts_per_minute: int | None
