"""Statements about wake-ups between replicas."""

from botpool.store.query import query


@query
def notify_replicas(*, owner: str) -> None:
    """Wake the other replicas."""


@query
def listen() -> None:
    """Receive the wake-ups of other replicas."""
