"""The requests that a backend takes in a minute, counted in PostgreSQL for all replicas.

What is urgent may spend all of it; what can wait leaves a share for that. The count is exact over
any minute: requests are kept by the second, for longer than a minute, since an operation pays for
all of its requests before it sends the first.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from botpool.backends.protocol import RequestPurpose
from botpool.domain.errors import BudgetExhausted
from botpool.store.database import Database

_WINDOW_S = 70.0
"""A minute, and as long as what was granted may take to be sent."""
_SHARES: Mapping[RequestPurpose, float] = {
    RequestPurpose.STOP: 1.0,
    RequestPurpose.OBSERVE: 0.95,
    RequestPurpose.START: 0.85,
    RequestPurpose.CREATE: 0.7,
    RequestPurpose.DESCRIPTION: 0.5,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRequestBudget:
    """A backend's budget of requests."""

    database: Database
    backend: str
    requests_per_minute: int

    async def take(self, purpose: RequestPurpose, requests: int) -> None:
        _, verdict = await self.database.atomically(
            ("lock_backend", {"backend": self.backend}),
            (
                "spend_request_budget",
                {
                    "backend": self.backend,
                    "requests": requests,
                    "limit": int(self.requests_per_minute * _SHARES[purpose]),
                    "window_s": _WINDOW_S,
                },
            ),
        )
        if not verdict[0]["granted"]:
            raise BudgetExhausted(
                f"the budget of {self.requests_per_minute} requests a minute is spent",
                max(verdict[0]["retry_after_s"], 1.0),
            )

    async def pause(self, seconds: float) -> None:
        await self.database.fetch("pause_backend", {"backend": self.backend, "seconds": seconds})
