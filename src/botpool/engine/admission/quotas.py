"""Counts of live bots, for tenants with a quota.

The matcher adds to a tenant's count in the statement that assigns a slot, and the release subtracts
in the statement that frees it, both under a lock of the tenant's row. So a quota is exact under
concurrent claims. A count begins when the tenant gets its quota. A claim that is in progress at
that moment does not know the quota; the recovery pass counts again and corrects that.
"""

import structlog

from botpool.domain.ids import TenantId
from botpool.store.database import Database
from botpool.store.turns import count_live_bots, list_quota_tenants, lock_quota

_log = structlog.get_logger()


class Quotas:
    """Counts the live bots of tenants."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def count(self, tenant_id: TenantId) -> None:
        """Count the live bots of a tenant, and log a count that was wrong."""
        lock = lock_quota.statement(tenant_id=tenant_id)
        count = count_live_bots.statement(tenant_id=tenant_id)
        await self._database.commit([lock, count])
        corrected = count.result
        if corrected is not None and corrected.former is not None:
            _log.warning(
                "quota.corrected", tenant=tenant_id, counted=corrected.former, live=corrected.live
            )

    async def count_all(self) -> None:
        """Count the live bots of all tenants with a quota."""
        for tenant_id in await list_quota_tenants(self._database):
            await self.count(tenant_id)
