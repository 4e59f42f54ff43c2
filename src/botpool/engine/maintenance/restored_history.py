"""History that was written on another server: a restored database is seen to by its first cleanup.

Every row of history carries the number of the transaction that wrote it, and is read, and
forgotten, in that order. A server that a database is restored into counts from another number: what
it writes would come before what was restored, and what is old would be forgotten last.

Done twice, or by two replicas at once, the second finds nothing. If the process dies, the next
cleanup goes on.
"""

import structlog

from botpool.store.database import Database

_log = structlog.get_logger()
_BATCH = 10_000


async def renumber_restored_history(database: Database) -> None:
    adopted = 0
    while rows := await database.fetch("renumber_restored_history", {"limit": _BATCH}):
        adopted += len(rows)
    if adopted:
        _log.info("history.adopted", rows=adopted)
