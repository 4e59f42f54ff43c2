"""Resets of slots in `error` by a recovery pass, with their outcomes.

A slot's reset runs as soon as the slot is in `error`. A pass repeats it without waiting for the
backoff of an earlier attempt, so that its result counts these slots. The reset itself is the
reconciler's step, under its lease: a pass in two replicas resets a slot once.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from botpool.domain.ids import SlotId
from botpool.domain.states import SlotStatus
from botpool.engine.lifecycle.reconciler import Reconciler
from botpool.engine.service import Service
from botpool.store.recovery import list_reset_outcomes, retry_resets_now


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorResets(Service):
    """Resets slots in `error` now and counts how that went."""

    reconciler: Reconciler

    async def run(self, slot_ids: Sequence[SlotId]) -> Counter[str]:
        """Reset the slots; returns the numbers of recovered, failed and deleted slots.

        A slot that another replica still resets is in none of the numbers.
        """
        if not slot_ids:
            return Counter()
        await retry_resets_now(self.database, slot_ids=slot_ids)
        await self.reconciler.run_steps_of(slot_ids, within_s=self.policy.lease_s)
        outcomes = await list_reset_outcomes(self.database, slot_ids=slot_ids)
        counts = Counter(deleted=len(slot_ids) - len(outcomes))
        for outcome in outcomes:
            if outcome.status is SlotStatus.ERROR:
                counts["failed"] += not outcome.in_progress
            else:
                is_deleted = outcome.status is SlotStatus.DELETING
                counts["deleted" if is_deleted else "recovered"] += 1
        return counts
