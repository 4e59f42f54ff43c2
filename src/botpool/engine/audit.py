"""Writes the audit log, with the actor of the current request.

A command adds `audit_row` to the statements of its transaction, so that no change is committed
without its row. A command of several transactions calls `announce` first: a crash in between leaves
a row for a command that had no effect, never an effect without a row.
"""

import json
from collections.abc import Mapping
from typing import Any

from botpool.domain.audit import Actor, AuditEntry, current_actor
from botpool.domain.pages import AuditPosition, Page
from botpool.store.audit import list_audit, record_audit
from botpool.store.database import Database
from botpool.store.query import Statement

_ABOVE_ALL_IDS = 2**63 - 1
Values = Mapping[str, Any] | None


def audit_row(
    action: str, target: str, *, before: Values = None, after: Values = None
) -> list[Statement[None]]:
    """Return the statement that records an action; none for what Botpool does by itself."""
    actor = current_actor.get()
    return [] if actor is None else [_statement(actor, action, target, before, after)]


async def announce(database: Database, action: str, target: str, *, before: Values = None) -> None:
    """Record a command before its first change."""
    if rows := audit_row(action, target, before=before):
        await database.commit(rows)


async def record_refused_sign_in(database: Database, actor: Actor) -> None:
    await database.commit([_statement(actor, "session.refused", "session", None, None)])


def _statement(
    actor: Actor, action: str, target: str, before: Values, after: Values
) -> Statement[None]:
    return record_audit.statement(
        actor=actor.name,
        actor_key_id=actor.key_id,
        tenant=actor.tenant,
        action=action,
        target=target,
        before=_json(before),
        after=_json(after),
        address=actor.address,
        correlation_id=actor.correlation_id,
    )


def _json(values: Values) -> str | None:
    return None if values is None else json.dumps(values, default=str)


async def read_audit(
    database: Database,
    *,
    before: AuditPosition | None,
    limit: int,
    actor: str | None = None,
    action: str | None = None,
    target: str | None = None,
    tenant: str | None = None,
) -> Page[AuditEntry, AuditPosition]:
    """Return a page of the audit log, newest first."""
    found = await list_audit(
        database,
        before_id=_ABOVE_ALL_IDS if before is None else before.audit_id,
        actor=actor,
        action=action,
        target=target,
        tenant=tenant,
        limit=limit + 1,
    )
    page = found[:limit]
    return Page(items=page, next=AuditPosition(page[-1].id) if len(found) > limit else None)
