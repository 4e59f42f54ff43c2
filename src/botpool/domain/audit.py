"""The audit log: who did what, and from where."""

from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Actor:
    """The API key, or the command on this machine, that causes a change."""

    name: str
    key_id: int | None = None
    tenant: str | None = None
    address: str | None = None
    correlation_id: str | None = None


CLI = Actor(name="cli")
"""A command that changes the database directly, such as `botpool key create`."""

current_actor: ContextVar[Actor | None] = ContextVar("current_actor", default=None)
"""The actor of the current request; None for what Botpool does by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One row of the audit log."""

    id: int
    at: datetime
    actor: str
    actor_key_id: int | None
    tenant: str | None
    action: str
    target: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    address: str | None
    correlation_id: str | None
