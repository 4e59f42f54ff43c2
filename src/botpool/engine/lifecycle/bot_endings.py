"""Ends of bots: in a slot (batched), in the queue, and between two attempts.

One statement ends a batch of bots and starts the release of their slots, each fenced by its own
assignment. After a crash before the commit, the bots still run, and the agent's report, the next
observation or the deadline repeats the end; after the commit, the slots are `releasing`. A repeated
end finds a slot that is already releasing and changes nothing.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from botpool.domain.bot_ending import BotEnding
from botpool.domain.bots import BotChange
from botpool.domain.ids import AssignmentId, BotId
from botpool.domain.states import BotStatus, FailureCode
from botpool.engine.lifecycle.pacing import PacingControl
from botpool.engine.observability import event_log
from botpool.engine.observability.metrics import Metrics
from botpool.engine.runtime.batching import Batcher
from botpool.engine.runtime.wakeups import Wakeups
from botpool.store.bookings import cancel_scheduled_bot
from botpool.store.bot_stops import cancel_bot_retry, cancel_queued_bot
from botpool.store.database import Database
from botpool.store.releases import EndedBot, end_bots

_MAX_BATCH = 64
"""A larger batch slows each of its items: the statement's joins are planned for a few rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BotEnd:
    """The end of an assignment's bot, as requested."""

    assignment_id: AssignmentId
    ending: BotEnding
    version: int | None
    holds_lease: bool
    silent_since: datetime | None


class BotEndings:
    """Ends bots at every stage."""

    def __init__(
        self, database: Database, wakeups: Wakeups, metrics: Metrics, pacing: PacingControl
    ) -> None:
        self._database = database
        self._pacing = pacing
        self._wakeups = wakeups
        self._metrics = metrics
        self._ends: Batcher[BotEnd, EndedBot | None] = Batcher(
            "end bots",
            self._end_batch,
            max_batch=_MAX_BATCH,
            max_in_flight=2,
            distinct_by=lambda end: end.assignment_id,
            is_idle=database.is_idle,
        )

    async def end(
        self,
        assignment_id: AssignmentId,
        ending: BotEnding,
        *,
        version: int | None = None,
        holds_lease: bool = False,
        silent_since: datetime | None = None,
    ) -> bool:
        """End the bot of an assignment and start its slot's release; False if nothing changed.

        `holds_lease`: the caller holds the slot's lease, which returns with this end.
        `silent_since`: the bot ends only if no heartbeat arrived at that time or later.
        """
        ended = await self._ends.submit(
            BotEnd(
                assignment_id=assignment_id,
                ending=ending,
                version=version,
                holds_lease=holds_lease,
                silent_since=silent_since,
            )
        )
        if ended is None:
            return False
        if ending.failure_code is FailureCode.BLOCKED:
            await self._pacing.report_blocked(ended.pool_name, assignment_id)
        elif ending.status is BotStatus.DONE:
            await self._pacing.report_admitted(ended.pool_name, assignment_id)
        return True

    async def cancel_queued(self, bot_id: BotId, *, reason: str) -> bool:
        """Cancel a bot in the queue; False if the bot is not queued."""
        cancelled = await cancel_queued_bot(self._database, bot_id=bot_id, reason=reason)
        return self._report_cancelled(cancelled, old=BotStatus.QUEUED, reason=reason)

    async def cancel_scheduled(self, bot_id: BotId, *, reason: str) -> bool:
        """Cancel a scheduled bot that is not due; False if the bot is not scheduled."""
        cancelled = await cancel_scheduled_bot(self._database, bot_id=bot_id, reason=reason)
        return self._report_cancelled(cancelled, old=BotStatus.SCHEDULED, reason=reason)

    async def cancel_retry(self, bot_id: BotId, *, reason: str) -> bool:
        """Cancel a bot whose failed deployment is being released; False if there is none."""
        cancelled = await cancel_bot_retry(self._database, bot_id=bot_id, reason=reason)
        return self._report_cancelled(cancelled, old=BotStatus.DEPLOYING, reason=reason)

    async def _end_batch(self, ends: Sequence[BotEnd]) -> list[EndedBot | None]:
        endings = [end.ending for end in ends]
        ended = await end_bots(
            self._database,
            assignment_ids=[end.assignment_id for end in ends],
            versions=[end.version for end in ends],
            statuses=[ending.status for ending in endings],
            failure_codes=[ending.failure_code for ending in endings],
            failure_reasons=[each.reason if each.failure_code else None for each in endings],
            end_reasons=[ending.end_reason for ending in endings],
            reasons=[ending.reason for ending in endings],
            slot_errors=[ending.slot_error for ending in endings],
            hold_leases=[end.holds_lease for end in ends],
            silent_since=[end.silent_since for end in ends],
        )
        by_assignment = {bot.assignment_id: bot for bot in ended}
        results = [by_assignment.get(end.assignment_id) for end in ends]
        if ended:
            self._wakeups.wake_reconcilers()
            # Outside the batch: an error in the log must not fail ends that are committed. The
            # callback still runs before the waiting callers continue.
            asyncio.get_running_loop().call_soon(self._report_ended, ends, results)
        return results

    def _report_ended(self, ends: Sequence[BotEnd], ended: Sequence[EndedBot | None]) -> None:
        changed = [
            (bot, end.ending) for bot, end in zip(ended, ends, strict=True) if bot is not None
        ]
        event_log.bots_ended(event_log.End(bot, bot.slot_status, ending) for bot, ending in changed)
        counts = Counter(
            (bot.pool_name, ending.status, ending.failure_code) for bot, ending in changed
        )
        for (pool_name, status, code), bots in counts.items():
            self._metrics.bots_ended(pool_name, status, code, bots=bots)

    def _report_cancelled(
        self, cancelled: BotChange | None, *, old: BotStatus, reason: str
    ) -> bool:
        if cancelled is None:
            return False
        event_log.bot_transition(
            bot_id=cancelled.bot_id,
            pool=cancelled.pool_name,
            old=old,
            new=BotStatus.CANCELLED,
            correlation_id=cancelled.correlation_id,
            reason=reason,
        )
        self._metrics.bots_ended(cancelled.pool_name, BotStatus.CANCELLED)
        return True
