"""Statements about backends: their request budget and their pauses."""

from dataclasses import dataclass

from botpool.store.statement import Statement, no_rows, record_of


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetDecision:
    """Whether requests were granted; if not, when to ask again."""

    granted: bool
    retry_after_s: float | None


def lock_backend(backend: str) -> Statement[None]:
    """Lock a backend's row until the transaction ends."""
    return Statement("lock_backend", {"backend": backend}, no_rows)


def spend_request_budget(
    *, backend: str, requests: int, limit: int, window_s: float
) -> Statement[BudgetDecision]:
    """Spend requests of a backend's budget, all or none."""
    parameters = {"backend": backend, "requests": requests, "limit": limit, "window_s": window_s}
    return Statement("spend_request_budget", parameters, record_of(BudgetDecision))


def pause_backend(*, backend: str, seconds: float) -> Statement[None]:
    """Send no requests to a backend for some seconds, because it asked for a pause."""
    return Statement("pause_backend", {"backend": backend, "seconds": seconds}, no_rows)
