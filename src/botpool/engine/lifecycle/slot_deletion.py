"""The start of a slot's deletion; the reconciler then deletes the container and the slot."""

from dataclasses import dataclass

from botpool.domain import reasons
from botpool.domain.fenced_slots import LeasedSlot, StuckSlot
from botpool.domain.ids import SlotId
from botpool.domain.states import SlotStatus
from botpool.engine.observability import event_log
from botpool.engine.service import Service
from botpool.store.slots import mark_slot_deleting


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotDeletion(Service):
    """Marks slots without a bot for deletion."""

    async def start(
        self,
        slot_id: SlotId,
        *,
        version: int | None,
        reason: str,
        correlation_id: str | None = None,
        holds_lease: bool = False,
    ) -> bool:
        """Make the slot `deleting`; False if it has a bot, or has changed since `version`.

        `holds_lease` states that the caller holds the slot's lease; the statement returns it.
        """
        slot = await mark_slot_deleting(
            self.database,
            slot_id=slot_id,
            version=version,
            reason=reason,
            correlation_id=correlation_id,
            holds_lease=holds_lease,
        )
        if slot is None:
            return False
        event_log.slot_transition(
            slot,
            old=slot.status,
            new=SlotStatus.DELETING,
            reason=reason,
        )
        self.wakeups.wake_reconcilers()
        return True

    async def start_after_failed_resets(
        self, slot: LeasedSlot | StuckSlot, *, holds_lease: bool = False
    ) -> bool:
        """Delete a slot that resets did not repair; False if it has changed."""
        return await self.start(
            slot.slot_id,
            version=slot.version,
            reason=reasons.resets_failed(slot.resets, slot.error_message),
            holds_lease=holds_lease,
        )
