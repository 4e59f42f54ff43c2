"""One operation of the backend, as the requests that it is made of see it."""

import time
from dataclasses import dataclass
from typing import Self

from structlog.contextvars import get_contextvars

from botpool.backends.protocol import RequestPurpose
from botpool.domain.errors import BackendUnavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """Why requests are sent, for whom, and until when.

    The end is looked at before each request: a process that was frozen in the middle of an
    operation sends nothing more when it wakes up after its lease has gone to another.
    """

    name: str
    purpose: RequestPurpose
    ends_at: float
    timeout_s: float
    correlation_id: str | None
    """Of the bot for whom it is; None where it is for many."""

    @classmethod
    def begin(
        cls,
        name: str,
        purpose: RequestPurpose,
        timeout_s: float,
        *,
        correlation_id: str | None = None,
    ) -> Self:
        """Without an id of its own it has the one that the engine bound for its log."""
        return cls(
            name=name,
            purpose=purpose,
            ends_at=time.monotonic() + timeout_s,
            timeout_s=timeout_s,
            correlation_id=correlation_id or get_contextvars().get("correlation_id"),
        )

    def remaining_s(self) -> float:
        remaining = self.ends_at - time.monotonic()
        if remaining <= 0:
            raise self.overdue()
        return remaining

    def overdue(self) -> BackendUnavailable:
        return BackendUnavailable(f"{self.name} did not end within {self.timeout_s:g} s")
