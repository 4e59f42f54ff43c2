"""The one matcher: the only thing that takes bots off a queue for a slot.

It is four statements under the pool's lock: take down what is above the maximum, give the heads of
the queue to idle slots, grow by what still waits, and give those slots out too. They are given out
as calls, so that the transaction that enqueues, frees, resets or deletes carries them along.
Growing comes after a first match: an idle slot that a newcomer is just claiming does not count.
"""

from collections.abc import Sequence

from botpool.domain import reasons
from botpool.domain.ids import PoolName, SlotId
from botpool.domain.states import SlotStatus
from botpool.engine.observability import event_log
from botpool.engine.observability.metrics import Metrics
from botpool.engine.runtime.wakeups import Wakeups
from botpool.store.database import Call, Database, Rows
from botpool.store.rows import to_slot_change

_STATEMENTS = ("shrink_pool", "match_queue", "grow_pool", "match_queue")


def lock(pool_name: PoolName) -> Call:
    return ("lock_pool", {"pool_name": pool_name})


def match_calls(pool_name: PoolName) -> list[Call]:
    """The match, for a transaction that holds the pool's lock; `Matcher.matched` reads its rows."""
    return [(name, {"pool_name": pool_name}) for name in _STATEMENTS]


class Matcher:
    def __init__(self, database: Database, wakeups: Wakeups, metrics: Metrics) -> None:
        self._database = database
        self._wakeups = wakeups
        self._metrics = metrics

    async def match_pool(self, pool_name: PoolName) -> None:
        """Serve the queue of a pool as far as slots go."""
        self.matched(await self._database.atomically(lock(pool_name), *match_calls(pool_name)))

    def matched(self, results: Sequence[Rows]) -> set[SlotId]:
        """Tell of a match that was committed: the last results of its transaction.

        The slots that were given to a bot.
        """
        trimmed, first, grown, second = results[-len(_STATEMENTS) :]
        for row in trimmed:
            event_log.slot_transitioned(
                to_slot_change(row),
                old=SlotStatus(row["status"]),
                new=SlotStatus.DELETING,
                reason=row["reason"],
            )
        for row in grown:
            event_log.slot_transitioned(
                to_slot_change(row), old=None, new=SlotStatus.IDLE, reason=reasons.POOL_GREW
            )
        given = [*first, *second]
        event_log.assigned(map(to_slot_change, given), reason=reasons.ASSIGNED)
        for row in given:
            self._metrics.assigned(row["pool_name"], warm=row["container_id"] is not None)
        if trimmed or given:
            self._wakeups.slots_due()
        return {row["slot_id"] for row in given}
