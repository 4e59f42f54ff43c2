"""The status in which each start's deployment was last seen here, so that a change is told once.

Kept for the log alone, and in memory: a replica that takes the looks over begins with `issued`,
which is what the slot row says.
"""

from collections.abc import Sequence

from botpool.domain.ids import DeploymentId, SlotId
from botpool.domain.observation import DeploymentState
from botpool.domain.records import ObservedSlot
from botpool.engine.observability import event_log

ISSUED = "issued"
_LOST = "lost"


class DeploymentStatuses:
    def __init__(self) -> None:
        self._seen: dict[str, dict[SlotId, tuple[DeploymentId, str]]] = {}

    def saw(self, slot: ObservedSlot, state: DeploymentState | None) -> None:
        """None: the backend was asked for it, and does not know it."""
        if slot.deployment_id is None:
            return
        seen, new = self._seen.setdefault(slot.backend, {}), str(state or _LOST)
        deployment_id, old = seen.get(slot.slot_id, (slot.deployment_id, ISSUED))
        if deployment_id != slot.deployment_id:
            old = ISSUED
        if new != old:
            event_log.deployment_status_changed(slot, slot.deployment_id, old=old, new=new)
        seen[slot.slot_id] = (slot.deployment_id, new)

    def forget_others(self, backend: str, slots: Sequence[ObservedSlot]) -> None:
        """Only what is still looked at is remembered."""
        looked_at = {slot.slot_id for slot in slots}
        self._seen[backend] = {
            slot_id: last
            for slot_id, last in self._seen.get(backend, {}).items()
            if slot_id in looked_at
        }
