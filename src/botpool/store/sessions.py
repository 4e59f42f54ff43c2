"""Statements about sessions: their setup, transactions and the wake-ups between replicas."""

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


@query
def notify_replicas(*, owner: str) -> None:
    """Wake the other replicas."""


@query
def listen() -> None:
    """Receive the wake-ups of other replicas."""
