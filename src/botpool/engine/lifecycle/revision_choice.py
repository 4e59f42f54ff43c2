"""Chooses the revision of a run that begins while its pool has a canary.

The choice is made when the container is prepared, not at the assignment: an admission does not know
of rollouts. The rollout's row lock puts the choices in one order, so the share of the new revision
is exact, also with many replicas. The row of the choice is written once per run:

- a crash before the commit: the next step chooses;
- a crash after it: the next lease reads the choice with the slot;
- a second or late choice: the fence of the slot and the key of the run keep the first one;
- the rollout ended meanwhile: no choice, and the run has the image that the lease read.
"""

from dataclasses import dataclass, replace

from botpool.domain.fenced_slots import LeasedSlot
from botpool.domain.states import SlotPhase
from botpool.engine.service import Service
from botpool.store.rollouts import choose_revision, lock_rollout


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionChoice(Service):
    """Gives the new revision its share of the runs."""

    async def choose(self, slot: LeasedSlot) -> LeasedSlot:
        """Return the slot with the image and limits of its revision."""
        if slot.rollout_id is None or slot.phase is not SlotPhase.CREATING:
            return slot
        choice = choose_revision.statement(rollout_id=slot.rollout_id, **slot.fence)
        await self.database.commit([lock_rollout.statement(rollout_id=slot.rollout_id), choice])
        chosen = choice.result
        if chosen is None:
            return slot
        return replace(slot, image=chosen.image, cpus=chosen.cpus, memory_mb=chosen.memory_mb)
