"""Statements about tenants."""

from botpool.domain.ids import TenantId
from botpool.domain.tenants import Tenant
from botpool.store.query import query


@query
def insert_tenant(
    *,
    name: str,
    weight: int,
    max_live: int | None,
    max_queued: int | None,
    max_booked: int | None,
    posts_per_minute: int | None,
) -> Tenant | None:
    """Create a tenant; None if the name is taken."""


@query
def find_tenant(*, name: str) -> TenantId | None:
    """The id of a tenant, by its name."""


@query
def list_tenants(*, name: str | None = None) -> list[Tenant]:
    """All tenants, or one by its name, each with its bots in slots and in queues."""


@query
def change_tenant(*, name: str, changes: str) -> TenantId | None:
    """Change the columns of a tenant that the JSON object `changes` names."""
