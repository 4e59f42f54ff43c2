"""The end of a run whose container exited although its bot had not ended.

The bot ends, or an infrastructure fault such as an eviction ended the run before the call: then the
bot is retried under the same id once the stop is confirmed. Each is one fenced statement. After a
crash before the commit, the next observation repeats it; a repeated or late one changes nothing.
"""

from dataclasses import dataclass

from botpool.domain.bot_ending import BEFORE_CALL, ending_after_exit, is_retried_after_fault
from botpool.domain.fenced_slots import BackendSlot
from botpool.domain.observation import Observation
from botpool.domain.states import BotStatus, SlotStatus
from botpool.engine.lifecycle.bot_endings import BotEndings
from botpool.engine.observability import event_log
from botpool.engine.service import Service
from botpool.store.releases import retry_bot_after_fault


@dataclass(frozen=True, slots=True, kw_only=True)
class ExitedRuns(Service):
    """Ends or retries the bots of busy slots whose containers exited."""

    bot_endings: BotEndings

    async def end(self, slot: BackendSlot, observation: Observation, *, output: str = "") -> bool:
        """End or retry the slot's bot; False if the slot has changed since it was read."""
        assert slot.bot_status is not None, "a busy slot has a bot"
        assert slot.assignment_id is not None
        fault, asked_to_leave = observation.infrastructure_fault, slot.leave_by is not None
        if fault and is_retried_after_fault(
            slot.bot_status, asked_to_leave=asked_to_leave, outcome=slot.outcome
        ):
            return await self._retry(slot, fault)
        ending = ending_after_exit(
            slot.bot_status,
            asked_to_leave=asked_to_leave,
            finishing=slot.finishing_at is not None,
            outcome=slot.outcome,
            exit_code=observation.exit_code,
            detail=observation.detail or str(observation.state),
            output=output,
            infrastructure_fault=fault,
        )
        return await self.bot_endings.end(slot.assignment_id, ending, version=slot.version)

    async def _retry(self, slot: BackendSlot, fault: str) -> bool:
        interrupted = await retry_bot_after_fault(
            self.database, **slot.fence, reason=fault, sources=sorted(BEFORE_CALL)
        )
        if interrupted is None:
            return False
        assert interrupted.bot_id is not None
        assert interrupted.correlation_id is not None
        event_log.bot_transition(
            bot_id=interrupted.bot_id,
            pool=slot.pool_name,
            old=interrupted.bot_status,
            new=BotStatus.DEPLOYING,
            correlation_id=interrupted.correlation_id,
            reason=fault,
        )
        event_log.slot_transition(
            interrupted, old=SlotStatus.BUSY, new=SlotStatus.RELEASING, reason=fault
        )
        self.wakeups.wake_reconcilers()
        return True
