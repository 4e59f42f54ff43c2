"""Tenants: owners of bots and keys, with a weight and quotas."""

import json
from typing import Unpack

from botpool.domain.callers import Caller
from botpool.domain.errors import NameTaken, NotFound, UnknownTenant
from botpool.domain.ids import TenantId
from botpool.domain.records import Tenant, TenantChanges
from botpool.store.database import Database
from botpool.store.tenants import change_tenant, find_tenant, insert_tenant, list_tenants


class Tenants:
    """Creates, lists and changes tenants. Tenants are never deleted."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def create(self, name: str, **values: Unpack[TenantChanges]) -> Tenant:
        """Create a tenant without bots and keys."""
        created = await insert_tenant(
            self._database,
            name=name,
            weight=values.get("weight", 1),
            max_live=values.get("max_live"),
            max_queued=values.get("max_queued"),
            posts_per_minute=values.get("posts_per_minute"),
        )
        if created is None:
            raise NameTaken("tenant", name)
        return created

    async def change(self, name: str, changes: TenantChanges) -> Tenant:
        """Change the weight and the quotas of a tenant. Bots that it already has stay."""
        if await change_tenant(self._database, name=name, changes=json.dumps(changes)) is None:
            raise NotFound("tenant", name)
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
