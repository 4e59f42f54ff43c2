"""Tenants: owners of bots and keys, with a weight and quotas."""

import json
from typing import Unpack

from botpool.domain.callers import Caller
from botpool.domain.errors import NameTaken, NotFound, UnknownTenant
from botpool.domain.ids import TenantId
from botpool.domain.tenants import Tenant, TenantChanges
from botpool.engine.audit import audit_row
from botpool.store.database import Database, Transaction
from botpool.store.tenants import change_tenant, find_tenant, insert_tenant, list_tenants


class Tenants:
    """Creates, lists and changes tenants. Tenants are never deleted."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, name: str, **values: Unpack[TenantChanges]) -> Tenant:
        """Create a tenant without bots and keys."""

        async def work(transaction: Transaction) -> Tenant:
            created = insert_tenant.statement(
                name=name,
                weight=values.get("weight", 1),
                max_live=values.get("max_live"),
                max_queued=values.get("max_queued"),
                max_booked=values.get("max_booked"),
                posts_per_minute=values.get("posts_per_minute"),
            )
            await transaction.run([created])
            if created.result is None:
                raise NameTaken("tenant", name)
            after = _shown([created.result])
            await transaction.run(audit_row("tenant.create", f"tenant {name}", after=after))
            return created.result

        return await self._database.transact(work)

    async def change(self, name: str, changes: TenantChanges) -> Tenant:
        """Change the weight and the quotas of a tenant. Bots that it already has stay."""

        async def work(transaction: Transaction) -> None:
            former = list_tenants.statement(name=name)
            changed = change_tenant.statement(name=name, changes=json.dumps(changes))
            current = list_tenants.statement(name=name)
            await transaction.run([former, changed, current])
            if changed.result is None:
                raise NotFound("tenant", name)
            before, after = _shown(former.result), _shown(current.result)
            await transaction.run(
                audit_row("tenant.change", f"tenant {name}", before=before, after=after)
            )

        await self._database.transact(work)
        return await self.get(name)

    async def get(self, name: str) -> Tenant:
        found = await list_tenants(self._database, name=name)
        if not found:
            raise NotFound("tenant", name)
        return found[0]

    async def list_all(self) -> list[Tenant]:
        return await list_tenants(self._database)

    async def id_of(self, name: str) -> TenantId:
        """Return the id of the tenant that a request names."""
        found = await find_tenant(self._database, name=name)
        if found is None:
            raise UnknownTenant(name)
        return found

    async def visible_to(self, caller: Caller, name: str | None) -> TenantId | None:
        """Return the tenant whose bots a request of this caller shows; None: all tenants.

        A user that names another tenant gets the same error whether or not that tenant exists.
        """
        own = caller.visible_tenant
        if name is None:
            return own
        if own is None:
            return await self.id_of(name)
        if name != caller.tenant:
            raise UnknownTenant(name)
        return own


def _shown(tenants: list[Tenant]) -> dict[str, object]:
    """Return what the audit log shows of a tenant."""
    names = ("weight", "max_live", "max_queued", "max_booked", "posts_per_minute")
    return {name: getattr(tenants[0], name) for name in names}
