"""Statements about the heartbeats of agents."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from botpool.domain.ids import AssignmentId, BotId
from botpool.domain.states import SlotStatus
from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """The state of an assignment at a heartbeat; no slot status once the assignment has ended."""

    assignment_id: AssignmentId
    bot_id: BotId
    leave_by: datetime | None
    slot_status: SlotStatus | None


@query
def record_heartbeats(
    *, assignment_ids: Sequence[AssignmentId], bot_ids: Sequence[BotId]
) -> list[Heartbeat]:
    """Record the heartbeats of agents whose assignments have not ended."""
