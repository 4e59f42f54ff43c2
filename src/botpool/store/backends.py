"""Statements about backends: their request budget and their pauses."""

from dataclasses import dataclass

from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetDecision:
    """Whether requests were granted; if not, when to ask again."""

    granted: bool
    retry_after_s: float | None


@query
def lock_backend(*, backend: str) -> None:
    """Lock a backend's row until the transaction ends."""


@query
def spend_request_budget(
    *, backend: str, requests: int, limit: int, window_s: float
) -> BudgetDecision:
    """Spend requests of a backend's budget, all or none."""


@query
def pause_backend(*, backend: str, seconds: float) -> None:
    """Send no requests to a backend for some seconds, because it asked for a pause."""
