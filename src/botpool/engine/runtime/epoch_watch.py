"""Watches for a new epoch of the database: after a restore, a promotion or a copy.

Every connection begins a new epoch before its first statement (`botpool_follow_epoch`), so that
no id is issued twice. This watch repeats the check, because a connection pooler may exchange the
server behind an open connection. It reports a new epoch, and unknown assignments: containers from
the time that the database has lost.
"""

from collections import deque
from collections.abc import Callable

import structlog

from botpool.domain.ids import AssignmentId, SlotId
from botpool.store.database import Database
from botpool.store.database_epochs import (
    DatabaseEpoch,
    find_assignment,
    follow_epoch,
    get_database_epoch,
)

_log = structlog.get_logger()
_RECENT_S = 3600.0
"""A replica that starts reports an epoch that began less than this long ago."""
_REMEMBERED = 1000


class EpochWatch:
    """Reports a new epoch of the database once per replica."""

    def __init__(self, database: Database, *, on_new_epoch: Callable[[], None]) -> None:
        self._database = database
        self._on_new_epoch = on_new_epoch
        self._reported: int | None = None
        self._reported_assignments: deque[AssignmentId] = deque(maxlen=_REMEMBERED)
        self.number = 0
        """The number of the newest epoch; 0 before the first check."""

    async def check(self) -> None:
        """Begin a new epoch if there is evidence of one, and report it."""
        await follow_epoch(self._database)
        epoch = await get_database_epoch(self._database)
        if epoch is None or epoch.number == self._reported:
            return
        is_first_check, self._reported = self._reported is None, epoch.number
        self.number = epoch.number
        if epoch.number > 1 and (not is_first_check or epoch.age_s < _RECENT_S):
            self._report(epoch)

    async def report_if_unknown(self, assignment_id: AssignmentId, slot_id: SlotId) -> bool:
        """Whether the database knows no such run of a slot; if so, report it as lost."""
        known = await find_assignment(self._database, assignment_id=assignment_id, slot_id=slot_id)
        if known is not None:
            return False
        await self.report_unknown(assignment_id)
        return True

    async def report_unknown(self, assignment_id: AssignmentId) -> None:
        """Report that a container has an assignment that the database does not know."""
        if assignment_id not in self._reported_assignments:
            _log.warning("assignment.unknown", assignment=assignment_id)
            await follow_epoch(self._database, unknown_assignment_id=assignment_id)
            self._reported_assignments.append(assignment_id)
            await self.check()

    def _report(self, epoch: DatabaseEpoch) -> None:
        _log.error(
            "database.new_epoch",
            number=epoch.number,
            began_at=epoch.began_at,
            evidence=epoch.reason,
        )
        self._on_new_epoch()
