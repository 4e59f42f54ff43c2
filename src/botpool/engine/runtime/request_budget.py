"""The request budget of a backend: requests per minute, counted in PostgreSQL for all replicas.

Each purpose may spend a share of the budget, so that urgent requests always find some left.
Requests are counted by the second, and for longer than a minute, because an operation spends all
of its requests before it sends the first.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from botpool.backends.protocol import RequestPurpose
from botpool.domain.errors import BudgetExhausted
from botpool.store.backends import lock_backend, pause_backend, spend_request_budget
from botpool.store.database import Database

_WINDOW_S = 70.0
"""A minute plus the time in which granted requests are sent."""
_SHARES: Mapping[RequestPurpose, float] = {
    RequestPurpose.STOP: 1.0,
    RequestPurpose.OBSERVE: 0.95,
    RequestPurpose.START: 0.85,
    RequestPurpose.CREATE: 0.7,
    RequestPurpose.DESCRIPTION: 0.5,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedRequestBudget:
    """A backend's request budget, shared by all replicas."""

    database: Database
    backend: str
    requests_per_minute: int

    async def take(self, purpose: RequestPurpose, requests: int) -> None:
        """Spend requests, or raise `BudgetExhausted`."""
        decision = spend_request_budget.statement(
            backend=self.backend,
            requests=requests,
            limit=int(self.requests_per_minute * _SHARES[purpose]),
            window_s=_WINDOW_S,
        )
        await self.database.commit([lock_backend.statement(backend=self.backend), decision])
        if not decision.result.granted:
            raise BudgetExhausted(
                f"the budget of {self.requests_per_minute} requests a minute is spent",
                max(decision.result.retry_after_s or 0.0, 1.0),
            )

    async def pause(self, seconds: float) -> None:
        """Send no requests for some seconds, in all replicas."""
        await pause_backend(self.database, backend=self.backend, seconds=seconds)
