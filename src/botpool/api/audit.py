"""The route for the audit log."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from botpool.api.auth import Operator, Service
from botpool.api.authenticated_route import AuthenticatedRoute
from botpool.api.paging import Limit, PageCursor, decode_cursor, encode_cursor
from botpool.api.patterns import PRINTABLE
from botpool.api.problems import error_responses
from botpool.api.schemas import Model, NextCursor
from botpool.domain.pages import AuditPosition
from botpool.engine.audit import read_audit

Text = Annotated[str | None, Query(max_length=200, pattern=PRINTABLE)]

routes = APIRouter(prefix="/v1", tags=["operators"], route_class=AuthenticatedRoute)


class AuditEntry(Model):
    """One action: who did what to which target, from which address."""

    id: int
    at: datetime
    actor: str = Field(description="The name of the key; `cli` for a command at the database.")
    actor_key_id: int | None
    tenant: str | None
    action: str
    target: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    address: str | None
    correlation_id: str | None


class AuditPage(Model):
    """A page of the audit log, newest first."""

    entries: list[AuditEntry]
    next_cursor: NextCursor = None


@routes.get("/audit", responses=error_responses(401, 403, 422, 503))
async def list_audit(
    replica: Service,
    _: Operator,
    actor: Text = None,
    action: Text = None,
    target: Text = None,
    tenant: Text = None,
    limit: Limit = 100,
    cursor: PageCursor = None,
) -> AuditPage:
    """List the actions of keys and commands, newest first. `nextCursor` leads to the next page."""
    page = await read_audit(
        replica.database,
        before=decode_cursor(AuditPosition, cursor),
        limit=limit,
        actor=actor,
        action=action,
        target=target,
        tenant=tenant,
    )
    return AuditPage(
        entries=[AuditEntry.of(entry) for entry in page.items],
        next_cursor=encode_cursor(page.next),
    )
