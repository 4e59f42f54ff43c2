"""The calls for tenants, API keys and the audit log. They need scope `operator` or `admin`."""

from collections.abc import AsyncGenerator
from typing import Any, TypedDict, Unpack

from botpool.client import errors
from botpool.client.calls import PAGE, Calls, without_none
from botpool.client.records import AuditEntry, Key, Page, Tenant
from botpool.client.records.reading import camel
from botpool.client.synchronous import Synchronous, iterated, synchronous


class TenantValues(TypedDict, total=False):
    """The weight and the quotas of a tenant; None removes a quota."""

    weight: int
    max_live: int | None
    max_queued: int | None
    max_booked: int | None
    posts_per_minute: int | None


class AsyncAdministrationCalls(Calls):
    """Tenants, API keys and the audit log."""

    async def tenants(self) -> list[Tenant]:
        """The tenants with their quotas and bots."""
        return await self._list(Tenant, "/v1/tenants", "tenants")

    async def create_tenant(self, name: str, **values: Unpack[TenantValues]) -> Tenant:
        """Create a tenant with a weight and quotas."""
        body = {"name": name, **_to_body(values)}
        return await self._record(
            Tenant, "POST", "/v1/tenants", "tenant", body=body, repeatable=False
        )

    async def change_tenant(self, name: str, **values: Unpack[TenantValues]) -> Tenant:
        """Change the given values of a tenant; None removes a quota."""
        # A name with other characters could become another path.
        if not name.replace("-", "").isalnum():
            raise errors.NotFound(404, f"There is no tenant {name!r}.")
        path = f"/v1/tenants/{name}"
        return await self._record(Tenant, "PATCH", path, "tenant", body=_to_body(values))

    async def keys(self) -> list[Key]:
        """All API keys, without their secrets."""
        return await self._list(Key, "/v1/keys", "keys")

    async def create_key(
        self,
        name: str,
        *,
        scope: str = "user",
        tenant: str | None = None,
        expires_in_ms: int | None = None,
        min_priority: int | None = None,
    ) -> Key:
        """Create an API key. Keep its `secret`: no later call returns it."""
        values = without_none(tenant=tenant, expiresInMs=expires_in_ms, minPriority=min_priority)
        return await self._new_key("/v1/keys", {"name": name, "scope": scope, **values})

    async def rotate_key(self, key_id: int, *, overlap_ms: int | None = None) -> Key:
        """Give an API key a new secret. The former one is valid until the overlap ends."""
        return await self._new_key(f"/v1/keys/{key_id}/rotate", without_none(overlapMs=overlap_ms))

    async def revoke_key(self, key_id: int) -> Key:
        """Revoke an API key. All replicas refuse it after ten seconds at most."""
        return await self._record(Key, "DELETE", f"/v1/keys/{key_id}")

    def audit(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        target: str | None = None,
        tenant: str | None = None,
    ) -> AsyncGenerator[AuditEntry, None]:
        """The audit log, newest first."""
        chosen = {"actor": actor, "action": action, "target": target, "tenant": tenant}
        return self._pages(AuditEntry, "/v1/audit", "entries", **chosen)

    async def audit_page(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        target: str | None = None,
        tenant: str | None = None,
        limit: int = PAGE,
        cursor: str | None = None,
    ) -> Page[AuditEntry]:
        """One page of the audit log, newest first."""
        chosen = {"actor": actor, "action": action, "target": target, "tenant": tenant}
        more = {"limit": limit, "cursor": cursor}
        return await self._page(AuditEntry, "/v1/audit", "entries", **chosen, **more)

    async def _new_key(self, path: str, body: dict[str, Any]) -> Key:
        response = await self._request("POST", path, body=body, repeatable=False)
        return response.parse_record(Key, "key", secret=response.body.get("secret"))


class AdministrationCalls(Synchronous):
    """The synchronous calls for tenants, API keys and the audit log."""

    tenants = synchronous(AsyncAdministrationCalls.tenants)
    create_tenant = synchronous(AsyncAdministrationCalls.create_tenant)
    change_tenant = synchronous(AsyncAdministrationCalls.change_tenant)
    keys = synchronous(AsyncAdministrationCalls.keys)
    create_key = synchronous(AsyncAdministrationCalls.create_key)
    rotate_key = synchronous(AsyncAdministrationCalls.rotate_key)
    revoke_key = synchronous(AsyncAdministrationCalls.revoke_key)
    audit = iterated(AsyncAdministrationCalls.audit)
    audit_page = synchronous(AsyncAdministrationCalls.audit_page)


def _to_body(values: TenantValues) -> dict[str, Any]:
    return {camel(name): value for name, value in values.items()}
