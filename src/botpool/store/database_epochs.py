"""Statements about the epochs of the database: what a restore or a promotion begins."""

from dataclasses import dataclass
from datetime import datetime

from botpool.domain.ids import AssignmentId, SlotId
from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseEpoch:
    """The newest epoch of the database."""

    number: int
    """1 for a database that was never restored."""
    began_at: datetime
    reason: str
    first_assignment_id: AssignmentId
    """No assignment of an earlier epoch has this id or a larger one."""
    age_s: float
    evidence: str | None
    """Why a new epoch has begun that no replica has recorded yet; usually None."""


@query
def follow_epoch(*, unknown_assignment_id: AssignmentId | None = None) -> None:
    """Begin a new epoch if there is evidence of one."""


@query
def get_database_epoch() -> DatabaseEpoch | None:
    """Read the newest epoch; None before the first connection of a replica."""


@query
def find_assignment(*, assignment_id: AssignmentId, slot_id: SlotId) -> AssignmentId | None:
    """Find an assignment, or a run that a slot may have had, by its id."""
