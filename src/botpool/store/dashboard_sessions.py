"""Statements about sessions of the dashboard."""

from botpool.domain.tenants import ApiKey
from botpool.store.query import query


@query
def insert_dashboard_session(*, id_hash: bytes, key_id: int, duration_s: int) -> None:
    """Store a session, by the hash of its id, and delete the sessions that have ended."""


@query
def find_dashboard_session(*, id_hash: bytes) -> ApiKey | None:
    """Find the key of a session, unless the session or the key has ended."""


@query
def delete_dashboard_session(*, id_hash: bytes) -> None:
    """End a session."""
