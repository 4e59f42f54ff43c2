"""Statements about API keys."""

from botpool.domain.records import ApiKey
from botpool.store.statement import Statement, record_of


def insert_api_key(*, name: str, scope: str, prefix: str, key_hash: bytes) -> Statement[ApiKey]:
    """Store a new API key, by its hash; no row if the key exists."""
    parameters = {"name": name, "scope": scope, "prefix": prefix, "key_hash": key_hash}
    return Statement("insert_api_key", parameters, record_of(ApiKey))


def find_api_key(key_hash: bytes) -> Statement[ApiKey]:
    """Find an API key by its hash, unless it is revoked."""
    return Statement("find_api_key", {"key_hash": key_hash}, record_of(ApiKey))


def find_api_key_by_id(key_id: int) -> Statement[ApiKey]:
    """Find the API key of a session by its id, unless it is revoked."""
    return Statement("find_api_key_by_id", {"key_id": key_id}, record_of(ApiKey))


def list_api_keys() -> Statement[ApiKey]:
    """All API keys, without their hashes."""
    return Statement("list_api_keys", {}, record_of(ApiKey))


def revoke_api_key(key_id: int) -> Statement[ApiKey]:
    """Revoke an API key."""
    return Statement("revoke_api_key", {"key_id": key_id}, record_of(ApiKey))
