"""The steps of a busy slot: signal a request to leave, and end a bot after its deadline.

A busy slot is due only when one of these is: the time to leave or the maximum duration is over, the
bot must get the signal to leave, or the time to finish may be over. Heartbeats write no slot, so
the step itself reads the progress that they reported, and waits on while the bot makes progress.

After a crash before the write, the lease expires and another replica repeats the step. The signal
is then sent a second time; a later run in the same container never gets it, because the stop names
its assignment.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

from botpool.backends.protocol import StopMode
from botpool.domain import reasons
from botpool.domain.bot_ending import (
    BotEnding,
    ending_after_deadline,
    ending_after_finish_timeout,
)
from botpool.domain.communication import LeaveBy
from botpool.domain.errors import BackendError, ContainerGone
from botpool.domain.fenced_slots import LeasedSlot
from botpool.domain.finishing import finish_deadline
from botpool.engine.lifecycle.bot_endings import BotEndings
from botpool.engine.lifecycle.slot_steps import SlotSteps
from botpool.engine.observability import event_log
from botpool.engine.runtime.leases import Lease
from botpool.engine.service import Service
from botpool.store.assignments import begin_finishing, find_progress


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningBots(Service):
    """Signals and ends the bots of busy slots."""

    steps: SlotSteps
    bot_endings: BotEndings
    last_gap_end: Callable[[], Awaitable[datetime]]
    """Returns when the last gap ended in which Botpool could record no heartbeats."""

    async def step(self, slot: LeasedSlot, lease: Lease) -> None:
        """Take the slot's next step."""
        if slot.finishing_at is not None:
            await self._end_unless_progress(slot)
        elif slot.leave_by is not None and slot.leave is LeaveBy.SIGNAL:
            await self._signal_leave(slot, lease)
        else:
            ending = ending_after_deadline(
                asked_to_leave=slot.leave_by is not None,
                max_duration_s=self.policy.max_duration_s,
            )
            await self._end(slot, ending)

    async def _end_unless_progress(self, slot: LeasedSlot) -> None:
        """End a bot that did not finish in time; wait on if its progress has changed."""
        assert slot.finishing_at is not None
        assert slot.bot_id is not None
        assert slot.assignment_id is not None
        progress = await find_progress(
            self.database, bot_id=slot.bot_id, assignment_id=slot.assignment_id
        )
        deadline = finish_deadline(
            finishing_at=slot.finishing_at,
            progress_at=progress.progress_at if progress else None,
            gap_ended_at=await self.last_gap_end(),
            finish_timeout_s=slot.finish_timeout_s,
            running_at=slot.running_at,
            max_duration_s=self.policy.max_duration_s,
        )
        if slot.now < deadline:
            await self.steps.postpone(slot, delay_s=(deadline - slot.now).total_seconds())
            return
        await self._end(
            slot,
            ending_after_finish_timeout(
                slot.finish_timeout_s, progress.progress if progress else None
            ),
        )

    async def _signal_leave(self, slot: LeasedSlot, lease: Lease) -> None:
        """Send the container the signal to leave; the bot then has its time to finish."""
        container_id, assignment_id = slot.container_id, slot.assignment_id
        assert container_id is not None
        assert assignment_id is not None
        backend = self.backends[slot.backend]
        try:
            await lease.call(
                lambda timeout_s: backend.stop(
                    container_id, assignment_id, mode=StopMode.ASK, timeout_s=timeout_s
                )
            )
        except ContainerGone:
            pass  # The next observation ends the bot.
        except BackendError as error:
            event_log.backend_unavailable("leave.unavailable", error, slot=slot.slot_id)
            await self.steps.postpone(slot, after=error)
            return
        if not await begin_finishing(
            self.database,
            assignment_id=assignment_id,
            version=slot.version,
            reason=reasons.LEAVE_SIGNALLED,
        ):
            await self.steps.abandon(slot, action="begin finishing")

    async def _end(self, slot: LeasedSlot, ending: BotEnding) -> None:
        assert slot.assignment_id is not None
        if not await self.bot_endings.end(
            slot.assignment_id, ending, version=slot.version, holds_lease=True
        ):
            await self.steps.abandon(slot, action="end the bot")
