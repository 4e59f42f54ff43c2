"""Renumbering of history that another PostgreSQL server wrote, after a restore.

Every row of history has the id of the transaction that wrote it; readers and retention use this
order. A server into which a database is restored counts transactions from another number, so its
new rows would sort before the restored ones. Each cleanup therefore gives restored rows the lowest
id. A repeated or concurrent run finds nothing left to do.
"""

import structlog

from botpool.store import maintenance
from botpool.store.database import Database

_log = structlog.get_logger()
_BATCH = 10_000


async def renumber_restored_history(database: Database) -> None:
    """Renumber all restored rows, in batches."""
    renumbered = 0
    while rows := await maintenance.renumber_restored_history(database, limit=_BATCH):
        renumbered += len(rows)
    if renumbered:
        _log.info("history.renumbered", rows=renumbered)
