"""The one matcher: the only thing that takes bots off a queue for a slot.

It is four statements under the pool's lock: take down what is above the maximum, give the heads of
the queue to idle slots, grow by what still waits, and give those slots out too. They are given out
as calls, so that the transaction that enqueues, frees, resets or deletes carries them along.
Growing comes after a first match: an idle slot that a newcomer is just claiming does not count.
"""

from collections.abc import Sequence

from botpool.domain.ids import Platform
from botpool.domain.states import SlotStatus
from botpool.engine import journal
from botpool.engine.wakeups import Wakeups
from botpool.store.database import Call, Database, Rows

_STATEMENTS = ("trim_pool", "match_queue", "grow_pool", "match_queue")


def lock(platform: Platform) -> Call:
    return ("lock_pool", {"platform": platform})


def match_calls(platform: Platform) -> list[Call]:
    """The match, for a transaction that holds the pool's lock; `Matcher.matched` reads its rows."""
    return [(name, {"platform": platform}) for name in _STATEMENTS]


class Matcher:
    def __init__(self, database: Database, wakeups: Wakeups) -> None:
        self._database = database
        self._wakeups = wakeups

    async def match_pool(self, platform: Platform) -> None:
        """Serve the queue of a pool as far as slots go."""
        self.matched(await self._database.atomically(lock(platform), *match_calls(platform)))

    def matched(self, results: Sequence[Rows]) -> None:
        """Tell of a match that was committed: the last results of its transaction."""
        trimmed, first, grown, second = results[-len(_STATEMENTS) :]
        for row in trimmed:
            journal.slot_moved(
                row,
                old=SlotStatus(row["status"]),
                new=SlotStatus.DELETING,
                reason=row["reason"],
            )
        for row in grown:
            journal.slot_moved(row, old=None, new=SlotStatus.IDLE, reason="the pool grew")
        for row in [*first, *second]:
            journal.slot_moved(
                row, old=SlotStatus.IDLE, new=SlotStatus.DEPLOYING, reason="assigned from the queue"
            )
        if trimmed or first or second:
            self._wakeups.slots_due()
