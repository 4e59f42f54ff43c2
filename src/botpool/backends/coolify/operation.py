"""One operation of the backend, which consists of several requests."""

import time
from dataclasses import dataclass
from typing import Self

from structlog.contextvars import get_contextvars

from botpool.backends.protocol import RequestPurpose
from botpool.domain.errors import BackendUnavailable


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The purpose, the deadline and the correlation id of requests.

    Each request first checks the deadline: a process that was frozen sends nothing after its lease
    has passed to another replica.
    """

    name: str
    purpose: RequestPurpose
    ends_at: float
    timeout_s: float
    correlation_id: str | None
    """The correlation id of the bot; None for operations that concern many bots."""

    @classmethod
    def begin(
        cls,
        name: str,
        purpose: RequestPurpose,
        timeout_s: float,
        *,
        correlation_id: str | None = None,
    ) -> Self:
        """Begin an operation. The default correlation id is the one of the log context."""
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
            raise self.timed_out()
        return remaining

    def timed_out(self) -> BackendUnavailable:
        return BackendUnavailable(f"{self.name} did not end within {self.timeout_s:g} s")
