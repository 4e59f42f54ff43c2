"""Statements about tenants that share a pool: their turns and their quotas of live bots."""

from collections.abc import Sequence
from dataclasses import dataclass

from botpool.domain.ids import PoolName, TenantId
from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedCount:
    """A count of live bots that differed from the slots; `former` is None if there was none."""

    former: int | None
    live: int


@query
def refresh_turns(*, pool_name: PoolName) -> None:
    """Give turns to the tenants that wait in a pool, if there are several; end other turns."""


@query
def list_waiting_pools(*, tenant_ids: Sequence[TenantId]) -> list[PoolName]:
    """Pools in which bots of any of these tenants wait."""


@query
def list_quota_tenants() -> list[TenantId]:
    """Tenants with a quota of live bots."""


@query
def lock_quota(*, tenant_id: TenantId) -> None:
    """Lock the count of a tenant's live bots until the transaction ends."""


@query
def count_live_bots(*, tenant_id: TenantId) -> CorrectedCount | None:
    """Count a tenant's bots in slots; None if the count was right, or without a quota."""
