"""The forced release of a slot whose stop cannot be confirmed.

An operator who knows that a node is dead gives its slots back before the node returns. If the
operator is wrong, the former container and the next one run at the same time.

- Before the commit, a crash leaves the slot `releasing`: the operator repeats the command.
- The release is the same transaction as after a confirmed stop, fenced by the slot's version. So a
  second command, or a late confirmation, finds another version and changes nothing.
- The former container keeps the token of its ended assignment: its agent is instructed to exit at
  its next call and can change nothing. Its stop was sent before; its node carries
  it out when it returns.
"""

from dataclasses import dataclass

from botpool.domain import reasons
from botpool.domain.errors import NotFound, NotReleasableByForce
from botpool.domain.fenced_slots import ReleasableSlot
from botpool.domain.ids import BotId, SlotId
from botpool.domain.stop_confirmation import stop_is_overdue
from botpool.engine.audit import announce
from botpool.engine.lifecycle.slot_handover import SlotHandover
from botpool.engine.service import Service
from botpool.store.releases import find_releasable_slot
from botpool.store.slots import find_slot

_MAX_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ForcedRelease(Service):
    """Releases slots without a confirmed stop, on an operator's word."""

    handover: SlotHandover

    async def release(self, slot_id: SlotId, *, key_name: str, bot_id: BotId | None = None) -> None:
        """Free a slot whose stop cannot be confirmed; its next bot starts beside the old container.

        `bot_id`: the bot that the operator saw in the slot; the command refuses another one.
        """
        for _ in range(_MAX_TRIES):
            slot = await find_releasable_slot(self.database, slot_id=slot_id)
            unconfirmed = await self._require_unconfirmed(slot_id, slot, bot_id)
            assert slot is not None
            before = {
                "status": slot.status,
                "assignmentId": slot.assignment_id,
                "botId": slot.bot_id,
                "containerId": slot.container_id,
                "node": slot.unconfirmed_node,
                "unconfirmed": unconfirmed,
            }
            await announce(self.database, "slot.release.force", f"slot {slot_id}", before=before)
            forced = reasons.released_by_force(key_name, unconfirmed)
            if await self.handover.free(slot, container_gone=False, forced=forced) is not None:
                return
        raise NotReleasableByForce(slot_id, "it changes right now; look at it again")

    async def _require_unconfirmed(
        self, slot_id: SlotId, slot: ReleasableSlot | None, bot_id: BotId | None
    ) -> str:
        """Return why the slot's stop is unconfirmed, or refuse."""
        if slot is None:
            found = await find_slot(self.database, slot_id=slot_id)
            if found is None:
                raise NotFound("slot", slot_id)
            raise NotReleasableByForce(slot_id, f"it is {found.status}, not releasing")
        if bot_id not in (None, slot.bot_id):
            raise NotReleasableByForce(slot_id, f"it has bot {slot.bot_id} now, not bot {bot_id}")
        backend = self.backends.get(slot.backend)
        if backend is None or not backend.can_abandon_runs:
            problem = f"the next bot needs the same container on the backend {slot.backend}"
            raise NotReleasableByForce(slot_id, problem)
        limit_s = backend.status_lag_s + self.policy.stop_timeout_s + slot.stop_grace_s
        if slot.unconfirmed_reason is not None:
            return slot.unconfirmed_reason
        if stop_is_overdue(stop_issued_at=slot.stop_issued_at, now=slot.now, limit_s=limit_s):
            return reasons.stop_overdue(limit_s)
        raise NotReleasableByForce(slot_id, "its container is being stopped; wait for the stop")
