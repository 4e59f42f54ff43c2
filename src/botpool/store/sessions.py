"""Statements about sessions and transactions, for the connections of the store."""

from botpool.store.statement import Statement, no_rows


def prepare_session() -> Statement[None]:
    """Set the session parameters of every connection."""
    return Statement("prepare_session", {}, no_rows)


def begin() -> Statement[None]:
    """Begin a transaction."""
    return Statement("begin", {}, no_rows)


def commit() -> Statement[None]:
    """Commit a transaction."""
    return Statement("commit", {}, no_rows)
