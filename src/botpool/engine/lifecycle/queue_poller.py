"""Polls the queue: expires bots, matches pools and opens image gates whose wake-up was missed."""

from dataclasses import dataclass

from botpool.domain import reasons
from botpool.domain.states import BotStatus, FailureCode
from botpool.engine.admission.matcher import Matcher
from botpool.engine.admission.quotas import Quotas
from botpool.engine.lifecycle.image_gate import ImageGate
from botpool.engine.observability import event_log
from botpool.engine.service import Service
from botpool.store.queue import expire_queue, find_queue_work

_BATCH = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePoller(Service):
    """Finds and does the work of the queue."""

    matcher: Matcher
    quotas: Quotas
    image_gate: ImageGate

    async def poll(self) -> None:
        """Expire bots, match pools and open image gates, where there is something to do."""
        work = await find_queue_work(self.database)
        self.matcher.is_shared = work.shared
        if work.expired:
            await self.expire()
        for tenant_id in work.uncounted:
            await self.quotas.count(tenant_id)
        for pool_name in work.contended:
            await self.matcher.refresh_turns(pool_name)
        for pool_name in set(work.servable) - set(work.contended):
            await self.matcher.match_pool(pool_name)
        for backend in work.gates:
            await self.image_gate.open(backend)

    async def expire(self) -> int:
        """Fail the bots whose queue timeout has passed; returns their number."""
        expired = 0
        while bots := await expire_queue(self.database, limit=_BATCH):
            expired += len(bots)
            for bot in bots:
                event_log.bot_transition(
                    bot_id=bot.bot_id,
                    pool=bot.pool_name,
                    old=BotStatus.QUEUED,
                    new=BotStatus.FAILED,
                    correlation_id=bot.correlation_id,
                    reason=reasons.QUEUE_TIMEOUT,
                )
                self.metrics.bots_ended(bot.pool_name, BotStatus.FAILED, FailureCode.QUEUE_TIMEOUT)
        return expired
