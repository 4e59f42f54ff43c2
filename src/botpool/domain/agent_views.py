"""Bots as their agents and standbys see them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from botpool.domain.bots import Bot
from botpool.domain.ids import AssignmentId, BotId, ContainerId, PoolName, SlotId
from botpool.domain.states import SlotStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentView:
    """The bot and the slot of the assignment in an agent's token."""

    assignment_id: AssignmentId
    agent_container_id: ContainerId | None
    boot_id: str | None
    """The first boot of the agent; None if none was recorded."""
    slot_status: SlotStatus | None
    handing_over: bool
    """Whether a standby has the bot, and did not accept it yet."""
    run_id: AssignmentId | None
    """The run of the standby that got the bot; None if the container was started for it."""
    bot_data: Mapping[str, Any] = field(repr=False)
    leave_by: datetime | None
    bot: Bot
    join_in_ms: int | None = None
    """The time until a scheduled bot joins, negative once it is late; None if it has joined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """A bot that a standby has to accept, with what its agent needs."""

    slot_id: SlotId
    run_id: AssignmentId
    assignment_id: AssignmentId
    container_id: ContainerId
    pool_name: PoolName
    bot_id: BotId
    correlation_id: str
    traceparent: str | None
    meeting_url: str = field(repr=False)
    bot_display_name: str
    bot_data: Mapping[str, Any] = field(repr=False)
