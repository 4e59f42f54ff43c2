"""Statements about the audit log."""

from botpool.domain.audit import AuditEntry
from botpool.store.query import query


@query
def record_audit(
    *,
    actor: str,
    actor_key_id: int | None,
    tenant: str | None,
    action: str,
    target: str,
    before: str | None,
    after: str | None,
    address: str | None,
    correlation_id: str | None,
) -> None:
    """Add a row to the audit log."""


@query
def list_audit(
    *,
    before_id: int,
    actor: str | None,
    action: str | None,
    target: str | None,
    tenant: str | None,
    limit: int,
) -> list[AuditEntry]:
    """List rows of the audit log, newest first."""


@query
def prune_audit(*, days: int, limit: int) -> list[int]:
    """Delete a batch of old rows of the audit log; one row per deleted row."""
