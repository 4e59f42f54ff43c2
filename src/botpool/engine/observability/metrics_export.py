"""Exports the metrics as text, with the figures of the pools read from the database.

The database is read at most once in five seconds, however often `/metrics` is scraped. While the
database does not answer, the metrics of pools are absent rather than out of date.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from botpool.domain.errors import DatabaseUnavailable
from botpool.domain.ids import PoolName
from botpool.domain.pacing import Breaker, EgressState
from botpool.domain.rollouts.comparison import Comparison
from botpool.domain.states import SlotStatus
from botpool.domain.warm_floors import WarmFloors
from botpool.engine.observability.metrics import Metrics
from botpool.engine.runtime.clock import loop_time
from botpool.store.database import Database
from botpool.store.doctor import OpenTransaction, list_open_transactions
from botpool.store.pacing import list_egresses
from botpool.store.pools import PoolFigures, measure_pools
from botpool.store.rollouts import RolloutRow, list_rollouts
from botpool.store.webhooks import measure_webhooks

CONTENT_TYPE = CONTENT_TYPE_LATEST
_FRESH_S = 5.0
_READ_TIMEOUT_S = 5.0
_HELD_S = 5.0
_MAX_ROLLOUTS = 1_000


class MetricsExport:
    """Renders the metrics of this replica for Prometheus."""

    def __init__(
        self,
        database: Database,
        metrics: Metrics,
        *,
        floors: Callable[[], Awaitable[Mapping[PoolName, WarmFloors]]],
        monotonic: Callable[[], float] = loop_time,
    ) -> None:
        self._database = database
        self._instruments = metrics.instruments
        self._floors = floors
        self._monotonic = monotonic
        self._read_at: float | None = None
        self._reading = asyncio.Lock()

    async def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        async with self._reading:
            now = self._monotonic()
            if self._read_at is None or now - self._read_at >= _FRESH_S:
                await self._measure_pools()
                self._read_at = now
        return generate_latest(self._instruments.registry)

    async def _measure_pools(self) -> None:
        try:
            async with asyncio.timeout(_READ_TIMEOUT_S):
                pools = await measure_pools(self._database)
                egresses = await list_egresses(self._database)
                rollouts = await list_rollouts(self._database, pool_name=None, limit=_MAX_ROLLOUTS)
                floors = await self._floors()
                oldest_pending_s = await measure_webhooks(self._database)
                held_by = await list_open_transactions(self._database, longer_than_s=_HELD_S)
        except (DatabaseUnavailable, TimeoutError):
            self._set_pools([], reachable=False)
            self._set_egresses([])
            self._set_rollouts([])
            self._set_floors({})
            self._instruments.webhook_oldest_pending.set(math.nan)
            self._set_transactions([])
        else:
            self._set_pools(pools, reachable=True)
            self._set_egresses(egresses)
            self._set_rollouts(rollouts)
            self._set_floors(floors)
            self._instruments.webhook_oldest_pending.set(oldest_pending_s)
            self._set_transactions([each for each in held_by if each.holds_stream])

    def _set_egresses(self, egresses: Sequence[EgressState]) -> None:
        metrics = self._instruments
        metrics.egress_paused.clear()
        metrics.egress_pace.clear()
        for each in egresses:
            is_paused = each.breaker is not Breaker.CLOSED
            metrics.egress_paused.labels(each.egress).set(is_paused)
            metrics.egress_pace.labels(each.egress).set(each.per_minute)

    def _set_rollouts(self, rollouts: Sequence[RolloutRow]) -> None:
        metrics = self._instruments
        metrics.rollout_bots.clear()
        metrics.rollout_sureness.clear()
        for each in rollouts:
            if each.comparison is None:
                continue
            compared = Comparison.from_json(each.comparison)
            metrics.rollout_bots.labels(each.pool_name, "old").set(compared.old.assignments)
            metrics.rollout_bots.labels(each.pool_name, "new").set(compared.new.assignments)
            metrics.rollout_sureness.labels(each.pool_name).set(compared.sureness)

    def _set_floors(self, floors: Mapping[PoolName, WarmFloors]) -> None:
        target, ready = self._instruments.warm_target, self._instruments.warm_ready
        target.clear()
        ready.clear()
        for pool_name, each in floors.items():
            target.labels(pool_name, "hot").set(each.hot_target)
            target.labels(pool_name, "idle").set(each.idle_target)
            ready.labels(pool_name, "hot").set(each.hot_ready)
            ready.labels(pool_name, "idle").set(each.idle_ready)

    def _set_transactions(self, transactions: Sequence[OpenTransaction]) -> None:
        gauge = self._instruments.open_transactions
        gauge.clear()
        for each in transactions:
            labels = (each.kind, each.pid or "", each.database_name or "", each.application or "")
            gauge.labels(*labels).set(math.nan if each.age_s is None else each.age_s)

    def _set_pools(self, pools: Sequence[PoolFigures], *, reachable: bool) -> None:
        metrics = self._instruments
        metrics.database_reachable.set(reachable)
        for gauge in (
            metrics.slots,
            metrics.slots_assignable,
            metrics.unconfirmed_stops,
            metrics.pool_max_slots,
            metrics.queue_depth,
            metrics.queue_oldest_wait,
            metrics.bots_stalled,
            metrics.mass_silence,
        ):
            gauge.clear()
        for pool in pools:
            for status in SlotStatus:
                count = pool.slots_by_status.get(status, 0)
                metrics.slots.labels(pool.pool_name, status).set(count)
            metrics.slots_assignable.labels(pool.pool_name).set(pool.assignable)
            metrics.unconfirmed_stops.labels(pool.pool_name).set(pool.unconfirmed_stops)
            metrics.pool_max_slots.labels(pool.pool_name).set(pool.max_size)
            metrics.queue_depth.labels(pool.pool_name).set(pool.queue_depth)
            metrics.queue_oldest_wait.labels(pool.pool_name).set(pool.oldest_wait_s)
            metrics.bots_stalled.labels(pool.pool_name).set(pool.stalled)
            metrics.mass_silence.labels(pool.pool_name).set(pool.mass_silence)
