"""The poll of what waits: deadlines, and whoever could be served but no event said so."""

from dataclasses import dataclass

from botpool.domain.states import BotStatus, FailureCode
from botpool.engine.admission.matcher import Matcher
from botpool.engine.lifecycle.image_gate import ImageGate
from botpool.engine.observability import event_log
from botpool.engine.observability.metrics import Metrics
from botpool.store.database import Database

_BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePoller:
    database: Database
    matcher: Matcher
    image_gate: ImageGate
    metrics: Metrics

    async def keep(self) -> None:
        work = await self.database.fetch_one("find_queue_work", {})
        assert work is not None, "the statement always has a row"
        if work["expired"]:
            await self.expire()
        for pool_name in work["servable"]:
            await self.matcher.match_pool(pool_name)
        for backend in work["gates"]:
            await self.image_gate.open(backend)

    async def expire(self) -> int:
        """Fail the bots whose time in the queue is over."""
        expired = 0
        while rows := await self.database.fetch("expire_queue", {"limit": _BATCH}):
            expired += len(rows)
            for row in rows:
                pool, failed = row["pool_name"], BotStatus.FAILED
                event_log.bot_transitioned(
                    bot_id=row["bot_id"],
                    pool=pool,
                    old=BotStatus.QUEUED,
                    new=failed,
                    correlation_id=row["correlation_id"],
                    reason="queue timeout",
                )
                self.metrics.bots_ended(pool, failed, FailureCode.QUEUE_TIMEOUT)
        return expired
