"""Logs each change of a deployment's status once.

The last statuses are kept in memory, for the log alone. A replica that takes over the observation
starts with `issued`, as the slot's row says.
"""

from collections.abc import Sequence

from botpool.domain.ids import DeploymentId, SlotId
from botpool.domain.observation import DeploymentState
from botpool.domain.records import ObservedSlot
from botpool.engine.observability import event_log

ISSUED = "issued"
_LOST = "lost"


class DeploymentStatuses:
    """The last observed status of each slot's deployment."""

    def __init__(self) -> None:
        self._last: dict[str, dict[SlotId, tuple[DeploymentId, str]]] = {}

    def record(self, slot: ObservedSlot, state: DeploymentState | None) -> None:
        """Log the status if it is new; None means that the backend does not know the deployment."""
        if slot.deployment_id is None:
            return
        last, new = self._last.setdefault(slot.backend, {}), str(state or _LOST)
        deployment_id, old = last.get(slot.slot_id, (slot.deployment_id, ISSUED))
        if deployment_id != slot.deployment_id:
            old = ISSUED
        if new != old:
            event_log.deployment_status_changed(slot, slot.deployment_id, old=old, new=new)
        last[slot.slot_id] = (slot.deployment_id, new)

    def keep_only(self, backend: str, slots: Sequence[ObservedSlot]) -> None:
        """Forget the backend's slots that are no longer observed."""
        observed = {slot.slot_id for slot in slots}
        self._last[backend] = {
            slot_id: last
            for slot_id, last in self._last.get(backend, {}).items()
            if slot_id in observed
        }
