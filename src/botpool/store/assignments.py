"""Statements about assignments: one bot in one slot, once."""

from collections.abc import Mapping
from typing import Any

from botpool.domain.ids import AssignmentId, SlotId
from botpool.domain.records import AgentView, Assignment, Bot
from botpool.domain.states import SlotStatus
from botpool.store.statement import Statement, record_of


def get_agent_assignment(assignment_id: AssignmentId) -> Statement[AgentView]:
    """The bot of an agent, by the assignment in its token."""
    return Statement("get_agent_assignment", {"assignment_id": assignment_id}, _agent_view)


def list_slot_assignments(slot_id: SlotId, *, limit: int) -> Statement[Assignment]:
    """The assignments of a slot, newest first."""
    parameters = {"slot_id": slot_id, "limit": limit}
    return Statement("list_slot_assignments", parameters, record_of(Assignment))


def _agent_view(row: Mapping[str, Any]) -> AgentView:
    slot_status = row["slot_status"]
    return AgentView(
        assignment_id=row["assignment_id"],
        agent_container_id=row["agent_container_id"],
        slot_status=SlotStatus(slot_status) if slot_status else None,
        bot_data=row["bot_data"],
        leave_by=row["leave_by"],
        bot=record_of(Bot)(row),
    )
