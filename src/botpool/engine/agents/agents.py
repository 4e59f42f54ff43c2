"""The calls of agents: identity, heartbeats, status reports and events.

The token names the assignment. While the assignment lasts, a call is evidence that its container
runs. After the assignment, the agent can read its own bot and is instructed to exit; its calls
change nothing, even when its container already serves another bot. The same holds for an agent
whose assignment the database lost in a restore or a promotion, except that its bot is unknown.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botpool.domain import reasons
from botpool.domain.agent_views import AgentView
from botpool.domain.bot_data import Command
from botpool.domain.bot_ending import ending_after_exit, is_applicable, reported_ending
from botpool.domain.communication import Outcome
from botpool.domain.errors import NotFound
from botpool.domain.heartbeat import AgentPhase, HeartbeatReport
from botpool.domain.ids import AssignmentId, BotId, ContainerId
from botpool.domain.states import FINAL, BotStatus, EndReason, SlotStatus, statuses_before
from botpool.engine.agents.accepts import Accept, Accepts
from botpool.engine.agents.bot_commands import BotCommands
from botpool.engine.agents.event_refusals import EventRefusals, events_refusal
from botpool.engine.agents.heartbeats import Heartbeats
from botpool.engine.lifecycle.bot_endings import BotEndings
from botpool.engine.lifecycle.deployment_outcome import DeploymentOutcome
from botpool.engine.lifecycle.pacing import PacingControl
from botpool.engine.observability import event_log
from botpool.engine.runtime.epoch_watch import EpochWatch
from botpool.engine.service import Service
from botpool.store.assignments import begin_finishing, get_agent_assignment, record_boot
from botpool.store.bots import report_status
from botpool.store.history import find_agent_event, record_agent_events

_ASSIGNED = frozenset({SlotStatus.DEPLOYING, SlotStatus.BUSY})
_ADMITTED = frozenset({BotStatus.IN_WAITING_ROOM, BotStatus.IN_CALL, BotStatus.CALL_ENDED})
"""Statuses that prove that the meeting platform did not block the bot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentInstructions:
    """The instructions in the response to a heartbeat."""

    should_leave: bool
    should_exit: bool
    commands: Sequence[Command] = ()
    """Commands that the agent has not acknowledged yet, in order."""
    join_in_ms: int | None = None
    """The time until a scheduled bot joins, while it waits for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agents(Service):
    """Answers the calls of agents."""

    bot_endings: BotEndings
    outcome: DeploymentOutcome
    accepts: Accepts
    heartbeats: Heartbeats
    epoch_watch: EpochWatch
    pacing: PacingControl
    event_refusals: EventRefusals
    commands: BotCommands

    async def accept(
        self,
        assignment_id: AssignmentId,
        run_id: AssignmentId,
        container_id: ContainerId,
        boot_id: str | None,
    ) -> tuple[AgentView, bool]:
        """Accept the bot that a standby got, and return it, and whether to exit.

        The first boot accepts. The same boot may repeat the call; another boot must exit, and
        so must an agent whose bot started cold meanwhile.
        """
        view = await self.accepts.accept(
            Accept(
                assignment_id=assignment_id,
                run_id=run_id,
                container_id=container_id,
                boot_id=boot_id,
            )
        )
        if view is None:
            raise await self._unknown(assignment_id)
        if view.agent_container_id != container_id:
            raise NotFound("container", container_id)
        is_own = view.slot_status is SlotStatus.BUSY and view.boot_id == boot_id
        return view, not is_own

    async def identify(
        self, assignment_id: AssignmentId, container_id: ContainerId, boot_id: str | None = None
    ) -> tuple[AgentView, bool]:
        """Return the agent's bot, and whether the bot was released.

        Some backends restart every container that ends. A second boot within an assignment proves
        that the first has ended, so it ends the bot and must not join.
        """
        view = await self.find(assignment_id)
        if view.agent_container_id != container_id:
            raise NotFound("container", container_id)
        if await self._is_second_boot(view, boot_id):
            ending = ending_after_exit(
                view.bot.status,
                asked_to_leave=view.leave_by is not None,
                finishing=view.bot.finishing_at is not None,
                outcome=Outcome.REPORT,
                exit_code=None,
                detail=reasons.SECOND_BOOT,
            )
            await self.bot_endings.end(assignment_id, ending)
            return await self.find(assignment_id), True
        if view.slot_status is SlotStatus.DEPLOYING:
            await self._mark_running(assignment_id)
            view = await self.find(assignment_id)
        return view, view.slot_status not in _ASSIGNED

    async def heartbeat(
        self, assignment_id: AssignmentId, bot_id: BotId, report: HeartbeatReport | None = None
    ) -> AgentInstructions:
        """Record a heartbeat and return the agent's instructions."""
        if report is not None and report.acknowledged:
            await self.commands.acknowledge(assignment_id, report.acknowledged)
        heartbeat = await self.heartbeats.record(assignment_id, bot_id, report)
        if heartbeat is None:
            return await self._instruct_lost_agent(assignment_id, bot_id)
        if heartbeat.slot_status is SlotStatus.DEPLOYING:
            await self._mark_running(assignment_id)
        is_finishing = report is not None and report.phase is AgentPhase.FINISHING
        if is_finishing and heartbeat.finishing_at is None:
            await self.begin_finishing(assignment_id)
        released = heartbeat.slot_status not in _ASSIGNED
        has_commands = heartbeat.has_commands and not released
        return self._instruct(
            AgentInstructions(
                should_leave=released or heartbeat.leave_by is not None,
                should_exit=released,
                join_in_ms=None if released else heartbeat.join_in_ms,
                commands=await self.commands.deliver(assignment_id) if has_commands else (),
            )
        )

    async def begin_finishing(self, assignment_id: AssignmentId) -> None:
        """Begin the phase finishing: the agent has left the call, or acknowledges the request to.

        A repetition, and a call after the assignment, change nothing.
        """
        await begin_finishing(
            self.database, assignment_id=assignment_id, reason=reasons.LEAVE_ACKNOWLEDGED
        )

    async def report(
        self,
        assignment_id: AssignmentId,
        bot_id: BotId,
        status: BotStatus,
        reason: str | None,
        end_reason: EndReason | None = None,
    ) -> bool:
        """Apply a status report; False if the report is late or backward."""
        view = await self.find_own(assignment_id, bot_id)
        if view is None:
            return False
        if view.handing_over:
            return False
        if view.slot_status is SlotStatus.DEPLOYING:
            await self._mark_running(assignment_id)
            view = await self.find(assignment_id)
        current = view.bot.status
        if view.join_in_ms is not None and status is BotStatus.JOINING_CALL:
            if view.join_in_ms > 0:
                return False  # The answer tells the agent how long to wait.
            self.metrics.joined(
                view.bot.pool_name,
                late_s=-view.join_in_ms / 1000,
                probability=view.bot.on_time_probability,
            )
        elif view.join_in_ms is not None and status is not BotStatus.FAILED:
            # The bot did not ask for permission and has joined.
            await self._apply_status(view, BotStatus.JOINING_CALL, None)
            current = BotStatus.JOINING_CALL
        if not is_applicable(status, current=current):
            return False
        if status in FINAL:
            return await self.bot_endings.end(
                assignment_id, reported_ending(status, reason, end_reason)
            )
        return await self._apply_status(view, status, end_reason)

    async def _apply_status(
        self, view: AgentView, status: BotStatus, end_reason: EndReason | None
    ) -> bool:
        former_status = await report_status(
            self.database,
            assignment_id=view.assignment_id,
            status=status,
            sources=sorted(statuses_before(status)),
            end_reason=end_reason,
        )
        if former_status is None:
            return False
        event_log.bot_transition(
            bot_id=view.bot.id,
            pool=view.bot.pool_name,
            old=former_status,
            new=status,
            correlation_id=view.bot.correlation_id,
            reason=reasons.REPORTED_BY_AGENT,
        )
        if status in _ADMITTED:
            await self.pacing.report_admitted(view.bot.pool_name, view.assignment_id)
        return True

    async def permission_to_join(self, assignment_id: AssignmentId) -> tuple[int | None, bool]:
        """Return how long a scheduled bot still waits (None: it may join), and whether to exit."""
        view = await get_agent_assignment(self.database, assignment_id=assignment_id)
        if view is None or view.slot_status not in _ASSIGNED:
            return None, True
        return None if view.join_in_ms is None else max(view.join_in_ms, 0), False

    async def record(
        self, assignment_id: AssignmentId, bot_id: BotId, events: Sequence[tuple[str, Any]]
    ) -> int:
        """Write an agent's events to its bot's history and return how many were written.

        Raises `LimitExceeded` if the events exceed a limit; then none is written.
        """
        view = await self.find_own(assignment_id, bot_id)
        if view is None:
            return 0
        if view.slot_status is SlotStatus.DEPLOYING:
            await self._mark_running(assignment_id)
        limits = self.policy.limits.events
        outcome = await record_agent_events(
            self.database,
            assignment_id=assignment_id,
            kinds=[kind for kind, _ in events],
            data=[json.dumps(data) for _, data in events],
            max_events=limits.count,
            max_bytes=limits.bytes,
            per_minute=limits.per_minute,
            burst=limits.burst,
        )
        if outcome is None:
            return 0
        if not outcome.accepted:
            refusal = events_refusal(outcome, limits)
            self.event_refusals.remember(assignment_id, refusal)
            raise refusal
        return outcome.recorded

    async def last_event(self, assignment_id: AssignmentId, kind: str) -> Mapping[str, Any]:
        """Return the data of the last event of a kind that the agent sent; empty if none."""
        found = await find_agent_event(
            self.database, assignment_id=assignment_id, kind=f"agent.{kind}"
        )
        return found.data or {} if found is not None else {}

    async def called(self, assignment_id: AssignmentId, bot_id: BotId) -> AgentView | None:
        """Return the bot of an agent that called; None if its assignment has ended.

        The call is evidence that the container runs.
        """
        view = await self.find_own(assignment_id, bot_id)
        if view is None or view.slot_status not in _ASSIGNED:
            return None
        if view.slot_status is SlotStatus.DEPLOYING:
            await self._mark_running(assignment_id)
            view = await self.find_own(assignment_id, bot_id)
        return view

    async def find_own(self, assignment_id: AssignmentId, bot_id: BotId) -> AgentView | None:
        """Return the agent's bot; None if the database does not know the agent's assignment."""
        view = await get_agent_assignment(self.database, assignment_id=assignment_id)
        if view is None:
            await self.epoch_watch.report_unknown(assignment_id)
        elif view.bot.id != bot_id:
            raise NotFound("bot", bot_id)
        return view

    async def find(self, assignment_id: AssignmentId) -> AgentView:
        """Return the bot of a token's assignment; NotFound if the database does not know it."""
        view = await get_agent_assignment(self.database, assignment_id=assignment_id)
        if view is None:
            raise await self._unknown(assignment_id)
        return view

    async def _unknown(self, assignment_id: AssignmentId) -> NotFound:
        """Report an assignment that the database does not know, and return the error."""
        await self.epoch_watch.report_unknown(assignment_id)
        return NotFound("assignment", assignment_id)

    async def _instruct_lost_agent(
        self, assignment_id: AssignmentId, bot_id: BotId
    ) -> AgentInstructions:
        """Instruct an agent of an unknown assignment to exit; NotFound for another bot's id."""
        if await self.find_own(assignment_id, bot_id) is not None:
            raise NotFound("bot", bot_id)
        return self._instruct(AgentInstructions(should_leave=True, should_exit=True))

    def _instruct(self, instructions: AgentInstructions) -> AgentInstructions:
        self.metrics.heartbeat(
            should_leave=instructions.should_leave, should_exit=instructions.should_exit
        )
        return instructions

    async def _is_second_boot(self, view: AgentView, boot_id: str | None) -> bool:
        """Whether another boot of this assignment came before. The first boot is recorded.

        An old agent sends no boot id, which proves nothing.
        """
        if boot_id is None or view.slot_status not in _ASSIGNED:
            return False
        first = view.boot_id or await record_boot(
            self.database, assignment_id=view.assignment_id, boot_id=boot_id
        )
        return first not in (None, boot_id)

    async def _mark_running(self, assignment_id: AssignmentId) -> None:
        await self.outcome.mark_running(
            assignment_id, version=None, reason=reasons.AGENT_CALLED, by_agent=True
        )
