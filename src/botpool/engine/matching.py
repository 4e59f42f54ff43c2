"""The one matcher: the only thing that takes bots off a queue for a slot.

It is three statements under the pool's lock. They are given out as calls, so that the transaction
that enqueues, frees, resets or deletes can carry them along.
"""

from botpool.domain.ids import Platform
from botpool.domain.states import SlotStatus
from botpool.engine import journal
from botpool.engine.wakeups import Wakeups
from botpool.store.database import Call, Database, Rows


def lock(platform: Platform) -> Call:
    return ("lock_pool", {"platform": platform})


def match_calls(platform: Platform) -> tuple[Call, Call]:
    """Grow as far as the queue needs, then give its heads to the idle slots. The lock is held."""
    return ("grow_pool", {"platform": platform}), ("match_queue", {"platform": platform})


class Matcher:
    def __init__(self, database: Database, wakeups: Wakeups) -> None:
        self._database = database
        self._wakeups = wakeups

    async def match_pool(self, platform: Platform) -> int:
        """Serve the queue of a pool as far as slots go."""
        *_, matched = await self._database.atomically(lock(platform), *match_calls(platform))
        self.matched(matched)
        return len(matched)

    def matched(self, rows: Rows) -> None:
        """Tell of a match that was committed."""
        for row in rows:
            journal.slot_moved(
                row, old=SlotStatus.IDLE, new=SlotStatus.DEPLOYING, reason="assigned from the queue"
            )
        if rows:
            self._wakeups.slots_due()
