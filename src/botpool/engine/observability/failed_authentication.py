"""Counts and logs failed authentication: requests with a wrong key, session or token."""

from collections.abc import Callable

import structlog

from botpool.domain.audit import Actor
from botpool.domain.errors import DatabaseUnavailable
from botpool.engine.audit import record_refused_sign_in
from botpool.engine.observability.metrics import Metrics
from botpool.engine.runtime.clock import loop_time
from botpool.store.database import Database

_log = structlog.get_logger()
_LOG_INTERVAL_S = 10.0
_MAX_ROWS_A_MINUTE = 30


class FailedAuthentication:
    """Limits log lines and audit rows, which anyone can cause; the counter counts all."""

    def __init__(
        self, database: Database, metrics: Metrics, *, monotonic: Callable[[], float] = loop_time
    ) -> None:
        self._database = database
        self._metrics = metrics
        self._monotonic = monotonic
        self._logged_at = float("-inf")
        self._unlogged = 0
        self._minute = -1
        self._rows = 0

    async def record(self, kind: str, *, address: str | None, is_sign_in: bool) -> None:
        """Record a refused request; `kind` is `missing`, `key`, `session` or `token`."""
        self._metrics.authentication_failed(kind)
        if kind != "missing":
            self._log_sometimes(kind, address)
        if is_sign_in:
            await self._add_row(address)

    def _log_sometimes(self, kind: str, address: str | None) -> None:
        now = self._monotonic()
        self._unlogged += 1
        if now - self._logged_at >= _LOG_INTERVAL_S:
            _log.warning(
                "authentication.failed", kind=kind, address=address, failures=self._unlogged
            )
            self._logged_at, self._unlogged = now, 0

    async def _add_row(self, address: str | None) -> None:
        minute = int(self._monotonic() // 60)
        if minute != self._minute:
            self._minute, self._rows = minute, 0
        if self._rows >= _MAX_ROWS_A_MINUTE:
            return
        self._rows += 1
        try:
            await record_refused_sign_in(self._database, Actor(name="unknown", address=address))
        except DatabaseUnavailable:
            return  # The answer stays 401; the counter and the log have the failure.
