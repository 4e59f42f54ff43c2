"""Statements about sessions and transactions, for the connections of the store."""

from botpool.store.query import query


@query
def prepare_session() -> None:
    """Set the session parameters of every connection."""


@query
def begin() -> None:
    """Begin a transaction."""


@query
def commit() -> None:
    """Commit a transaction."""
