"""Records of stops that cannot be confirmed, because the container's node is unreachable.

The slot stays `releasing`: no bot gets it, and it is no free capacity. The record shows operators
the node and the time, and lets them release the slot by force. Each record is one fenced write,
only when it changes. After a crash before the commit, the next observation repeats it.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

from botpool.domain import reasons
from botpool.domain.fenced_slots import LeasedSlot, ObservedSlot
from botpool.domain.observation import Observation
from botpool.domain.stop_confirmation import is_unconfirmable
from botpool.engine.observability import event_log
from botpool.engine.service import Service
from botpool.store.releases import record_unconfirmed_stop

_Slot = TypeVar("_Slot", LeasedSlot, ObservedSlot)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnconfirmedStops(Service):
    """Records why the stops of releasing slots cannot be confirmed."""

    async def note(self, slot: _Slot, observation: Observation, *, overdue: bool) -> _Slot | None:
        """Record what an observation shows; returns the slot, or None if it has changed.

        `overdue`: the stop was sent so long ago that it should be confirmed.
        """
        reason, node = _reason(observation, overdue=overdue), observation.unreachable_node
        name = node.name if node is not None and reason is not None else None
        if (slot.unconfirmed_reason, slot.unconfirmed_node) == (reason, name):
            return slot
        recorded = await record_unconfirmed_stop(
            self.database,
            **slot.fence,
            reason=reason,
            node=name,
            since=node.since if node is not None else None,
        )
        if recorded is None:
            return None
        event_log.stop_unconfirmed(slot, reason=reason, node=name, since=recorded.since)
        return replace(
            slot, version=recorded.version, unconfirmed_reason=reason, unconfirmed_node=name
        )


def _reason(observation: Observation, *, overdue: bool) -> str | None:
    """Return why a stop cannot be confirmed; None if an observation can confirm it."""
    if not is_unconfirmable(observation, overdue=overdue):
        return None
    if observation.unreachable_node is not None:
        return reasons.node_unreachable(observation.unreachable_node.name)
    return observation.detail
