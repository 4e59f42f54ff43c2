"""What containers call: who am I, I live, this happened.

The token names the assignment; while that lives, a call is evidence that the container runs. Once
it has ended, the agent can read its own bot and is told to exit, and nothing it sends changes
anything, even when its container already serves another bot.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from botpool.domain.decisions import BotEnding, is_applicable
from botpool.domain.errors import NotFound
from botpool.domain.ids import AssignmentId, BotId, ContainerId
from botpool.domain.records import AgentView
from botpool.domain.states import FINAL, BotStatus, FailureCode, SlotStatus, statuses_before
from botpool.engine.agents.heartbeats import Heartbeats
from botpool.engine.lifecycle.transitions import Transitions
from botpool.engine.observability import event_log
from botpool.store.rows import to_agent_view

_LIVE = frozenset({SlotStatus.DEPLOYING, SlotStatus.BUSY})


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentInstructions:
    """What an agent is told with each heartbeat."""

    should_leave: bool
    should_exit: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Agents:
    transitions: Transitions
    heartbeats: Heartbeats

    async def identify(
        self, assignment_id: AssignmentId, container_id: ContainerId
    ) -> tuple[AgentView, bool]:
        """The agent's bot, and whether it was released."""
        view = await self._find(assignment_id)
        if view.agent_container_id != container_id:
            raise NotFound("container", container_id)
        if view.slot_status is SlotStatus.DEPLOYING:
            await self._is_running(assignment_id)
            view = await self._find(assignment_id)
        return view, view.slot_status not in _LIVE

    async def heartbeat(self, assignment_id: AssignmentId, bot_id: BotId) -> AgentInstructions:
        row = await self.heartbeats.beat(assignment_id, bot_id)
        if row is None:
            raise NotFound("bot", bot_id)
        if row["slot_status"] == SlotStatus.DEPLOYING:
            await self._is_running(assignment_id)
        released = row["slot_status"] not in _LIVE
        orders = AgentInstructions(
            should_leave=released or row["leave_by"] is not None, should_exit=released
        )
        self.transitions.metrics.heartbeat(
            should_leave=orders.should_leave, should_exit=orders.should_exit
        )
        return orders

    async def report(
        self, assignment_id: AssignmentId, bot_id: BotId, status: BotStatus, reason: str | None
    ) -> bool:
        """Apply a report if it is a forward move of a live assignment; say whether it was."""
        view = await self._own(assignment_id, bot_id)
        current = view.bot.status
        if view.slot_status is SlotStatus.DEPLOYING:
            await self._is_running(assignment_id)
            current = BotStatus.JOINING_CALL
        if not is_applicable(status, current=current):
            return False
        if status in FINAL:
            return await self.transitions.end_bot(assignment_id, _reported_ending(status, reason))
        row = await self.transitions.database.fetch_one(
            "report_status",
            {
                "assignment_id": assignment_id,
                "status": status,
                "sources": sorted(statuses_before(status)),
            },
        )
        if row is None:
            return False
        event_log.bot_transitioned(
            bot_id=bot_id,
            pool=view.bot.pool_name,
            old=BotStatus(row["former_status"]),
            new=status,
            correlation_id=view.bot.correlation_id,
            reason="reported by the agent",
        )
        return True

    async def record(
        self, assignment_id: AssignmentId, bot_id: BotId, events: Sequence[tuple[str, Any]]
    ) -> int:
        """Write an agent's own events into its bot's history; how many were taken."""
        view = await self._own(assignment_id, bot_id)
        if view.slot_status is SlotStatus.DEPLOYING:
            await self._is_running(assignment_id)
        rows = await self.transitions.database.fetch(
            "record_agent_events",
            {
                "assignment_id": assignment_id,
                "kinds": [kind for kind, _ in events],
                "data": [json.dumps(data) for _, data in events],
            },
        )
        return len(rows)

    async def _own(self, assignment_id: AssignmentId, bot_id: BotId) -> AgentView:
        view = await self._find(assignment_id)
        if view.bot.id != bot_id:
            raise NotFound("bot", bot_id)
        return view

    async def _find(self, assignment_id: AssignmentId) -> AgentView:
        row = await self.transitions.database.fetch_one(
            "get_agent_assignment", {"assignment_id": assignment_id}
        )
        if row is None:
            raise NotFound("assignment", assignment_id)
        return to_agent_view(row)

    async def _is_running(self, assignment_id: AssignmentId) -> None:
        await self.transitions.mark_running(
            assignment_id, version=None, reason="its agent called", by_agent=True
        )


def _reported_ending(status: BotStatus, reason: str | None) -> BotEnding:
    if status is BotStatus.FAILED:
        return BotEnding(
            status=status,
            reason=reason or "The agent reported a failure.",
            failure_code=FailureCode.MEETING_FAILED,
        )
    return BotEnding(status=status, reason="reported by the agent")
