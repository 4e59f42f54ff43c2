"""Operators' commands on one slot: release it, recover it, delete it with its bot.

Each command does at once what the engine does in time, with the operator's reason in history. The
slot's version detects another operator or the engine: the command then reads the slot again.
"""

from dataclasses import dataclass

from botpool.domain import reasons
from botpool.domain.bot_ending import BotEnding
from botpool.domain.errors import NotFound
from botpool.domain.fenced_slots import FencedSlot
from botpool.domain.ids import SlotId
from botpool.domain.states import BotStatus, FailureCode, SlotStatus
from botpool.engine.audit import announce
from botpool.engine.lifecycle.bot_endings import BotEndings
from botpool.engine.lifecycle.deployment_outcome import DeploymentOutcome
from botpool.engine.observability import event_log
from botpool.engine.operations.pool_commands import PoolCommands
from botpool.engine.service import Service
from botpool.store.slots import (
    find_slot,
    mark_slot_error,
    request_slot_deletion,
    retry_slot_now,
)

_MAX_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotCommands(Service):
    """Changes single slots, and ends their bots."""

    pools: PoolCommands
    bot_endings: BotEndings
    outcome: DeploymentOutcome

    async def release(self, slot_id: SlotId, *, reason: str) -> None:
        """Release a slot; its bot fails. A slot without a bot does not change."""
        slot = await self._find(slot_id)
        await self._announce("slot.release", slot)
        if slot.status in (SlotStatus.DEPLOYING, SlotStatus.BUSY):
            await self._end_bot(slot, reason)

    async def recover(
        self, slot_id: SlotId, *, reason: str, correlation_id: str | None = None
    ) -> None:
        """Reset a slot in any status. A bot that is still deploying is queued again."""
        await self._announce("slot.recover", await self._find(slot_id))
        for _ in range(_MAX_TRIES):
            if await self._recover(await self._find(slot_id), reason, correlation_id):
                return

    async def delete(
        self, slot_id: SlotId, *, reason: str, correlation_id: str | None = None
    ) -> None:
        """Delete a slot together with its bot."""
        slot = await self._find(slot_id)
        await self._announce("slot.delete.force", slot)
        requested = await request_slot_deletion(
            self.database, slot_id=slot_id, reason=reason, correlation_id=correlation_id
        )
        if requested is None:
            await self.pools.remove(slot_id, reason=reason, correlation_id=correlation_id)
        else:
            await self._end_bot(slot, reason)

    async def _announce(self, action: str, slot: FencedSlot) -> None:
        before = {"status": slot.status, "assignmentId": slot.assignment_id}
        await announce(self.database, action, f"slot {slot.slot_id}", before=before)

    async def _find(self, slot_id: SlotId) -> FencedSlot:
        slot = await find_slot(self.database, slot_id=slot_id)
        if slot is None:
            raise NotFound("slot", slot_id)
        return slot

    async def _end_bot(self, slot: FencedSlot, reason: str) -> bool:
        """Fail the slot's bot; the assignment alone is the fence, whatever the slot's status is."""
        if slot.assignment_id is None:
            return False
        ending = BotEnding(
            status=BotStatus.FAILED,
            reason=reasons.taken_by_operator(reason),
            failure_code=FailureCode.OPERATOR,
        )
        return await self.bot_endings.end(slot.assignment_id, ending)

    async def _recover(self, slot: FencedSlot, reason: str, correlation_id: str | None) -> bool:
        match slot.status:
            case SlotStatus.BUSY:
                return await self._end_bot(slot, reason)
            case SlotStatus.DEPLOYING:
                return await self.outcome.fail(slot, reason=reason)
            case SlotStatus.IDLE:
                return await self._mark_error(slot, reason)
            case _:
                return await self._retry_now(slot, reason, correlation_id)

    async def _mark_error(self, slot: FencedSlot, reason: str) -> bool:
        changed = await mark_slot_error(
            self.database, slot_id=slot.slot_id, version=slot.version, reason=reason
        )
        if changed is None:
            return False
        event_log.slot_transition(changed, old=SlotStatus.IDLE, new=SlotStatus.ERROR, reason=reason)
        self.wakeups.wake_reconcilers()
        return True

    async def _retry_now(self, slot: FencedSlot, reason: str, correlation_id: str | None) -> bool:
        slot_id = await retry_slot_now(
            self.database,
            slot_id=slot.slot_id,
            version=slot.version,
            reason=reason,
            correlation_id=correlation_id,
        )
        self.wakeups.wake_reconcilers()
        return slot_id is not None
