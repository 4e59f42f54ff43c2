"""Starts scheduled bots that are due, and keeps slots held for those that follow.

All times are PostgreSQL's: a jump of a replica's clock delays nothing. A bot is due when its
booking starts. One transaction under the pool's lock then puts it into the queue and matches; bots
with a reservation come first, the earliest join time first. If the process dies before the commit,
the bot is still SCHEDULED and the next poll of any replica repeats the transaction; a second
replica finds no SCHEDULED bot any more. After an outage across the moment, the first poll finds the
bot due.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from botpool.domain import reasons
from botpool.domain.ids import PoolName, TenantId
from botpool.domain.states import BotStatus
from botpool.engine.admission.matcher import Matcher
from botpool.engine.observability import event_log
from botpool.engine.service import Service
from botpool.store.bookings import (
    enqueue_due_bots,
    find_schedule_work,
    join_unreported_bots,
    lock_bookings,
    mark_at_risk,
    measure_pool_times,
    refresh_starts,
    settle_due_bots,
)
from botpool.store.pools import lock_pool
from botpool.store.query import Statement

_BATCH = 500
_NO_TENANT = TenantId(0)


@dataclass(frozen=True, slots=True, kw_only=True)
class DueBots(Service):
    """Finds and does the work of the schedule."""

    matcher: Matcher

    async def poll(self) -> bool:
        """Start due bots, restore holds, and warn about late bots; False if nothing is booked."""
        work = await find_schedule_work(self.database)
        self.matcher.expect_only_bookings_of(work.booked)
        for pool_name in work.due:
            await self.start_due(pool_name)
        for pool_name in work.booked:
            if pool_name not in work.due:
                await self.matcher.match_pool(pool_name)
            await self.warn(pool_name)
        if work.booked:
            await self._join_unreported()
        return bool(work.due or work.booked)

    async def measure(self) -> None:
        """Measure the times of booked pools again, and correct the starts of their bots."""
        for pool_name in (await find_schedule_work(self.database)).booked:
            await measure_pool_times(self.database, pool_name=pool_name)
            lock = lock_bookings.statement(pool_name=pool_name, tenant_id=_NO_TENANT)
            await self.database.commit([lock, refresh_starts.statement(pool_name=pool_name)])

    async def start_due(self, pool_name: PoolName) -> None:
        """Put the due bots of a pool into its queue and match."""
        match = self.matcher.prepare_booked_match(pool_name)
        enqueue = enqueue_due_bots.statement(pool_name=pool_name, limit=_BATCH)
        settle = settle_due_bots.statement(pool_name=pool_name)
        statements: Sequence[Statement[Any]] = [
            lock_pool.statement(pool_name=pool_name),
            enqueue,
            *match.statements,
            settle,
        ]
        await self.database.commit(statements)
        queued = set(settle.result)
        for bot in enqueue.result:
            event_log.bot_transition(
                bot_id=bot.bot_id,
                pool=pool_name,
                old=BotStatus.SCHEDULED,
                new=BotStatus.QUEUED if bot.bot_id in queued else BotStatus.DEPLOYING,
                correlation_id=bot.correlation_id,
                reason=reasons.BOT_DUE,
            )
        self.matcher.report(match)

    async def warn(self, pool_name: PoolName) -> None:
        """Mark the bots that will probably be late, once each."""
        for bot in await mark_at_risk(self.database, pool_name=pool_name):
            self.metrics.at_risk(pool_name)
            event_log.bot_at_risk(
                bot_id=bot.bot_id,
                pool=pool_name,
                correlation_id=bot.correlation_id,
                reason=bot.reason,
            )

    async def _join_unreported(self) -> None:
        for bot in await join_unreported_bots(self.database):
            event_log.bot_transition(
                bot_id=bot.bot_id,
                pool=bot.pool_name,
                old=BotStatus.DEPLOYING,
                new=BotStatus.JOINING_CALL,
                correlation_id=bot.correlation_id,
                reason=reasons.JOIN_TIME_REACHED,
            )
