"""Statements about wake-ups between replicas."""

from botpool.store.statement import Statement, no_rows


def notify_replicas(*, owner: str) -> Statement[None]:
    """Wake the other replicas."""
    return Statement("notify_replicas", {"owner": owner}, no_rows)


def listen() -> Statement[None]:
    """Receive the wake-ups of other replicas."""
    return Statement("listen", {}, no_rows)
