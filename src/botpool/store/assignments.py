"""Statements about assignments, one bot in one slot, once, and their heartbeats."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from botpool.domain.agent_views import AgentView
from botpool.domain.ids import AssignmentId, BotId, SlotId
from botpool.domain.slots import Assignment
from botpool.domain.states import SlotStatus
from botpool.store.query import query


@query
def get_agent_assignment(*, assignment_id: AssignmentId) -> AgentView | None:
    """The bot of an agent, by the assignment in its token."""


@query
def record_boot(*, assignment_id: AssignmentId, boot_id: str) -> str | None:
    """Record the first boot of a current assignment; returns the recorded one."""


@query
def list_slot_assignments(*, slot_id: SlotId, before: AssignmentId, limit: int) -> list[Assignment]:
    """A page of a slot's assignments, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat:
    """The state of an assignment at a heartbeat; no slot status once the assignment has ended."""

    assignment_id: AssignmentId
    bot_id: BotId
    leave_by: datetime | None
    finishing_at: datetime | None
    slot_status: SlotStatus | None
    has_commands: bool
    """Whether the agent has not acknowledged all commands to its bot."""
    join_in_ms: int | None = None
    """The time until the bot joins, while a scheduled bot waits for it."""


@query
def record_heartbeats(
    *, assignment_ids: Sequence[AssignmentId], bot_ids: Sequence[BotId]
) -> list[Heartbeat]:
    """Record the heartbeats of agents whose assignments have not ended."""


@query
def record_heartbeat_reports(
    *,
    assignment_ids: Sequence[AssignmentId],
    bot_ids: Sequence[BotId],
    progress: Sequence[str | None],
    last_media_at: Sequence[datetime | None],
) -> list[Heartbeat]:
    """Record heartbeats that carry figures; `progress` is JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The figures that an agent last sent, and when they last changed."""

    progress: Mapping[str, Any]
    progress_at: datetime


@query
def find_progress(*, bot_id: BotId, assignment_id: AssignmentId) -> Progress | None:
    """The progress of a running bot; None if its agent sent none."""


@query
def begin_finishing(
    *, assignment_id: AssignmentId, version: int | None = None, reason: str
) -> BotId | None:
    """Begin the phase finishing of a bot; returns the bot if the phase began now."""
