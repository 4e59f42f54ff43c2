"""Statements about assignments: one bot in one slot, once."""

from botpool.domain.ids import AssignmentId, SlotId
from botpool.domain.records import AgentView, Assignment
from botpool.store.query import query


@query
def get_agent_assignment(*, assignment_id: AssignmentId) -> AgentView | None:
    """The bot of an agent, by the assignment in its token."""


@query
def list_slot_assignments(*, slot_id: SlotId, limit: int) -> list[Assignment]:
    """The assignments of a slot, newest first."""
