"""The matcher: the only code that takes bots off a queue for a slot.

A match is four statements under the pool's lock: delete slots above the maximum, assign the heads
of the queue to idle slots, grow the pool by the bots that still wait, and assign these new slots.
The pool grows only after the first assignment, because an idle slot that an admission is claiming
is not available to the queue. Other transactions that enqueue bots, free, reset or delete slots
append the match to their own pipeline with `add_match`.
"""

from dataclasses import dataclass

from botpool.domain import reasons
from botpool.domain.ids import PoolName, SlotId
from botpool.domain.states import SlotStatus
from botpool.engine.observability import event_log
from botpool.engine.observability.metrics import Metrics
from botpool.engine.runtime.wakeups import Wakeups
from botpool.store.database import Database
from botpool.store.pools import CreatedSlot, SurplusSlot, grow_pool, lock_pool, shrink_pool
from botpool.store.queue import MatchedSlot, match_queue
from botpool.store.statement import Pipeline, Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Match:
    """The results of a match; available once its pipeline is committed."""

    surplus: Result[SurplusSlot]
    assigned: Result[MatchedSlot]
    created: Result[CreatedSlot]
    assigned_created: Result[MatchedSlot]


def add_match(pipeline: Pipeline, pool_name: PoolName) -> Match:
    """Append a match to a pipeline that holds the pool's lock, for `Matcher.report`."""
    return Match(
        surplus=pipeline.add(shrink_pool(pool_name)),
        assigned=pipeline.add(match_queue(pool_name)),
        created=pipeline.add(grow_pool(pool_name)),
        assigned_created=pipeline.add(match_queue(pool_name)),
    )


class Matcher:
    """Matches queued bots with slots and reports each match."""

    def __init__(self, database: Database, wakeups: Wakeups, metrics: Metrics) -> None:
        self._database = database
        self._wakeups = wakeups
        self._metrics = metrics

    async def match_pool(self, pool_name: PoolName) -> None:
        """Assign as many bots of the pool's queue as it has slots."""
        pipeline = Pipeline()
        pipeline.add(lock_pool(pool_name))
        match = add_match(pipeline, pool_name)
        await self._database.commit(pipeline)
        self.report(match)

    def report(self, match: Match) -> set[SlotId]:
        """Log and count a committed match, wake the reconciler and return the assigned slots."""
        for surplus in match.surplus.rows:
            event_log.slot_transition(
                surplus, old=surplus.status, new=SlotStatus.DELETING, reason=surplus.reason
            )
        for created in match.created.rows:
            event_log.slot_transition(
                created, old=None, new=SlotStatus.IDLE, reason=reasons.POOL_GREW
            )
        assigned = [*match.assigned.rows, *match.assigned_created.rows]
        event_log.bots_assigned(assigned, reason=reasons.ASSIGNED)
        for slot in assigned:
            self._metrics.assigned(slot.pool_name, warm=slot.container_id is not None)
        if match.surplus.rows or assigned:
            self._wakeups.slots_due()
        return {slot.slot_id for slot in assigned}
