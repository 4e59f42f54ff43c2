"""Statements about sessions: their setup, transactions and the wake-ups between replicas."""

from dataclasses import dataclass
from typing import Self

from botpool.store.query import Statement, query


@query
def prepare_session(
    *, statement_timeout: str, lock_timeout: str, idle_in_transaction_timeout: str
) -> None:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionTimeouts:
    """How long the server lets a session's statements, locks and open transactions last."""

    statement_s: float
    lock_s: float
    idle_in_transaction_s: float
    deadline_s: float
    """When this process gives up on a statement: only if the server cannot even say no."""

    @classmethod
    def of(cls, statement_s: float) -> Self:
        """Derive the other times from the longest statement."""
        return cls(
            statement_s=statement_s,
            lock_s=statement_s * 2 / 3,
            idle_in_transaction_s=statement_s / 2,
            deadline_s=statement_s + max(1.0, statement_s / 6),
        )

    def statement(self) -> Statement[None]:
        """The statement that sets up a session with these timeouts."""
        return prepare_session.statement(
            statement_timeout=_interval(self.statement_s),
            lock_timeout=_interval(self.lock_s),
            idle_in_transaction_timeout=_interval(self.idle_in_transaction_s),
        )


def _interval(seconds: float) -> str:
    return f"{seconds * 1000:.0f}ms"
