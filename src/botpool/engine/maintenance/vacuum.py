"""Vacuums the tables of slots and queue during a burst.

Every step of a slot leaves a dead version of its row. The longest-unused slot and the head of a
queue are at the start of their indexes, where the dead versions are, so that every claim reads past
them. Autovacuum checks a table once a minute by default, which is too late in a burst.

Any replica may vacuum at any time: PostgreSQL skips a table that is being vacuumed. After a vacuum
that failed or removed little, the next one waits until there is clearly more to remove.
"""

from botpool.store import maintenance
from botpool.store.database import Database

INTERVAL_S = 2.0
_MIN_DEAD_ROWS = 5_000
_DEAD_SHARE = 0.2
"""Of the live rows: below this, a vacuum costs more than it saves."""


class Vacuum:
    """Runs VACUUM when enough dead rows have accumulated."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # Dead rows that the last vacuum left, because an old transaction may still read them.
        self._left = 0

    async def vacuum_if_due(self) -> None:
        """Vacuum if the dead rows have clearly grown since the last time."""
        rows = await maintenance.count_dead_rows(self._database)
        self._left = min(self._left, rows.dead)
        if rows.dead >= 2 * self._left + max(_MIN_DEAD_ROWS, _DEAD_SHARE * rows.live):
            self._left = rows.dead
            await maintenance.vacuum_tables(self._database)
            self._left = (await maintenance.count_dead_rows(self._database)).dead
