"""The metrics as text, with the figures of the pools read from the database as they are asked for.

However many ask, and however often, the database is read at most once in five seconds. While it
does not answer there are no figures of pools: an old one would say that all is well.
"""

import asyncio
from collections.abc import Callable

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from botpool.domain.errors import DatabaseUnavailable
from botpool.domain.states import SlotStatus
from botpool.engine.observability.metrics import Metrics
from botpool.engine.runtime.clock import loop_time
from botpool.store.database import Database, Rows

CONTENT_TYPE = CONTENT_TYPE_LATEST
_FRESH_S = 5.0
_READ_TIMEOUT_S = 5.0


class MetricsExport:
    def __init__(
        self,
        database: Database,
        metrics: Metrics,
        *,
        monotonic: Callable[[], float] = loop_time,
    ) -> None:
        self._database = database
        self._instruments = metrics.instruments
        self._monotonic = monotonic
        self._read_at: float | None = None
        self._reading = asyncio.Lock()

    async def text(self) -> bytes:
        """Everything, in the format that Prometheus reads."""
        async with self._reading:
            now = self._monotonic()
            if self._read_at is None or now - self._read_at >= _FRESH_S:
                await self._measure_pools()
                self._read_at = now
        return generate_latest(self._instruments.registry)

    async def _measure_pools(self) -> None:
        try:
            async with asyncio.timeout(_READ_TIMEOUT_S):
                rows = await self._database.fetch("measure_pools", {})
        except (DatabaseUnavailable, TimeoutError):
            self._show([], reachable=False)
        else:
            self._show(rows, reachable=True)

    def _show(self, rows: Rows, *, reachable: bool) -> None:
        shown = self._instruments
        shown.database_reachable.set(reachable)
        for gauge in (
            shown.slots,
            shown.slots_assignable,
            shown.pool_max_slots,
            shown.queue_depth,
            shown.queue_oldest_wait,
        ):
            gauge.clear()
        for row in rows:
            pool = row["pool_name"]
            for status in SlotStatus:
                shown.slots.labels(pool, status).set(row["slots_by_status"].get(status, 0))
            shown.slots_assignable.labels(pool).set(row["assignable"])
            shown.pool_max_slots.labels(pool).set(row["max_size"])
            shown.queue_depth.labels(pool).set(row["queue_depth"])
            shown.queue_oldest_wait.labels(pool).set(row["oldest_wait_s"])
