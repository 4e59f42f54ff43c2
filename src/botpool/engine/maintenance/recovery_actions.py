"""The actions of the recovery table, each as one fenced write."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from botpool.domain import reasons
from botpool.domain.bot_ending import BotEnding
from botpool.domain.fenced_slots import StuckSlot
from botpool.domain.recovery import RecoveryAction, RecoveryCase
from botpool.domain.states import BotStatus, FailureCode, SlotStatus
from botpool.engine.lifecycle.bot_endings import BotEndings
from botpool.engine.lifecycle.deployment_outcome import DeploymentOutcome
from botpool.engine.lifecycle.exited_runs import ExitedRuns
from botpool.engine.lifecycle.slot_deletion import SlotDeletion
from botpool.engine.observability import event_log
from botpool.engine.service import Service
from botpool.store import recovery as statements
from botpool.store.slots import mark_slot_error


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryActions(Service):
    """Applies the action that the recovery table decided on to one slot."""

    bot_endings: BotEndings
    exited_runs: ExitedRuns
    outcome: DeploymentOutcome
    deletion: SlotDeletion

    async def apply(self, action: RecoveryAction, slot: StuckSlot, case: RecoveryCase) -> bool:
        """Apply the action and count it. False: nothing to do, or the slot has changed since."""
        if action is RecoveryAction.NOTHING:
            return False
        if action is RecoveryAction.SKIP:
            return True
        works: Mapping[RecoveryAction, Callable[[StuckSlot, RecoveryCase], Awaitable[bool]]] = {
            RecoveryAction.RETRY: self._retry,
            RecoveryAction.FAIL: self._fail,
            RecoveryAction.END: self._end,
            RecoveryAction.TOUCH: self._touch,
            RecoveryAction.HEAL: self._heal,
            RecoveryAction.RELEASE: self._release,
            RecoveryAction.RESET: self._reset,
            RecoveryAction.DELETE: self._delete,
        }
        if not await works[action](slot, case):
            return False
        self.metrics.recovered(action.name.lower())
        return True

    async def _touch(self, slot: StuckSlot, _: RecoveryCase) -> bool:
        touched = await statements.touch_slot(
            self.database, **slot.fence, reason=reasons.HEARTBEATS_FRESH
        )
        return touched is not None

    async def _heal(self, slot: StuckSlot, _: RecoveryCase) -> bool:
        assert slot.assignment_id is not None
        return await self.outcome.mark_running(
            slot.assignment_id,
            version=slot.version,
            reason=reasons.HEARTBEATS_FRESH,
            by_agent=True,
            healed=True,
        )

    async def _retry(self, slot: StuckSlot, _: RecoveryCase) -> bool:
        reason = reasons.not_running_after_start(self.policy.recovery.deploying_timeout_s)
        return await self.outcome.fail(slot, reason=reason, stuck=True)

    async def _fail(self, slot: StuckSlot, _: RecoveryCase) -> bool:
        assert slot.assignment_id is not None
        assert slot.bot_id is not None
        limit_s = self.policy.recovery.heartbeat_freshness_s
        ending = BotEnding(
            status=BotStatus.FAILED,
            reason=reasons.no_heartbeat(limit_s),
            failure_code=FailureCode.HEARTBEAT_LOST,
        )
        if not await self.bot_endings.end(
            slot.assignment_id, ending, version=slot.version, silent_since=slot.now
        ):
            return False
        event_log.heartbeat_lost(slot, threshold_s=limit_s)
        return True

    async def _end(self, slot: StuckSlot, case: RecoveryCase) -> bool:
        assert case.observation is not None
        return await self.exited_runs.end(slot, case.observation)

    async def _release(self, slot: StuckSlot, _: RecoveryCase) -> bool:
        released = await statements.release_orphaned_slot(
            self.database, **slot.fence, reason=reasons.BOT_ALREADY_ENDED
        )
        if released is None:
            return False
        event_log.slot_transition(
            released,
            old=released.status,
            new=SlotStatus.RELEASING,
            reason=reasons.BOT_ALREADY_ENDED,
        )
        self.wakeups.wake_reconcilers()
        return True

    async def _reset(self, slot: StuckSlot, _: RecoveryCase) -> bool:
        reason = reasons.IDLE_BUT_RUNNING
        changed = await mark_slot_error(
            self.database, slot_id=slot.slot_id, version=slot.version, reason=reason
        )
        if changed is None:
            return False
        event_log.slot_transition(changed, old=SlotStatus.IDLE, new=SlotStatus.ERROR, reason=reason)
        self.wakeups.wake_reconcilers()
        return True

    async def _delete(self, slot: StuckSlot, _: RecoveryCase) -> bool:
        return await self.deletion.start_after_failed_resets(slot)
