"""Vacuum: dead rows of slots and queue are cleared away while a burst lasts.

Every step of a slot leaves a dead version of its row. The longest-unused slot and the head of a
queue are found at the beginning of their index, which is where the dead are: whoever looks goes
past all of them, until they are vacuumed. PostgreSQL looks for what is to be vacuumed once a
minute by default, table after table, the large ones too. In a burst that is late: a cycle took
twice as long after half a minute. So a replica clears these two small tables as soon as it pays.

Any replica may, at any time: one that finds another at it does nothing. If the process dies, the
server goes on with the vacuum it was asked for. What fails, or takes longer than a statement may,
is not tried again before there is three times as much to do: autovacuum has its turn.
"""

from botpool.store.database import Database

INTERVAL_S = 2.0
_DEAD = 5_000
"""So few are hardly noticed."""
_SHARE = 0.2
"""Of the living: what has to be gone through costs no more than what it saves."""


class Vacuum:
    def __init__(self, database: Database) -> None:
        self._database = database
        # What the last vacuum left: where somebody still looks at an old state of the database, its
        # rows cannot go, and trying again and again would be in vain.
        self._left = 0

    async def tidy(self) -> None:
        live, dead = await self._count()
        self._left = min(self._left, dead)
        if dead >= 2 * self._left + max(_DEAD, _SHARE * live):
            self._left = dead
            await self._database.fetch("vacuum_tables", {})
            _, self._left = await self._count()

    async def _count(self) -> tuple[int, int]:
        row = await self._database.fetch_one("count_dead_rows", {})
        assert row is not None, "a sum is always one row"
        return row["live"], row["dead"]
