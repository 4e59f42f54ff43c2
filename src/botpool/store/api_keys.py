"""Statements about API keys."""

from botpool.domain.ids import TenantId
from botpool.domain.tenants import ApiKey
from botpool.store.query import query


@query
def insert_api_key(
    *,
    name: str,
    scope: str,
    tenant_id: TenantId,
    prefix: str,
    key_hash: bytes,
    lifetime_s: float | None,
    min_priority: int,
) -> ApiKey | None:
    """Store a new API key, by its hash; no row if the key exists."""


@query
def find_api_key(*, key_hash: bytes) -> ApiKey | None:
    """Find an API key by its hash or its former one, unless it is revoked or expired."""


@query
def find_api_key_by_id(*, key_id: int) -> ApiKey | None:
    """Find an API key by its id, unless it is revoked or expired."""


@query
def list_api_keys() -> list[ApiKey]:
    """All API keys, without their hashes."""


@query
def revoke_api_key(*, key_id: int) -> ApiKey | None:
    """Revoke an API key."""


@query
def rotate_api_key(*, key_id: int, prefix: str, key_hash: bytes, overlap_s: float) -> ApiKey | None:
    """Give an API key a new hash; no row if the key is unknown, revoked or expired."""


@query
def record_api_key_uses(*, key_ids: list[int]) -> None:
    """Record that API keys were used."""
