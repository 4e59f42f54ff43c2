"""The steps of slots without a bot that need care: `error` is reset, `deleting` is taken down.

Nothing comes to `error` before its stop was confirmed. A reset sees that the container exists and
is still stopped, or makes it again, and gives the slot back to the queue. Resets are counted until
the slot is busy again: after the third in a row the slot itself is the problem, and goes. Each step
may be repeated after a crash.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from botpool.backends.protocol import Backend
from botpool.domain.errors import BackendError, BackendRefused, StillRunning
from botpool.domain.observation import ContainerState
from botpool.domain.records import LeasedSlot
from botpool.domain.states import SlotStatus
from botpool.domain.stop_confirmation import stop_is_overdue
from botpool.engine.admission.matcher import Matcher, lock, match_calls
from botpool.engine.lifecycle.transitions import Transitions, spec_of
from botpool.engine.observability import event_log
from botpool.engine.runtime.leases import Lease
from botpool.store.rows import to_slot_change

_REFUSED_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Resetter:
    transitions: Transitions
    matcher: Matcher
    backends: Mapping[str, Backend]

    async def reset(self, slot: LeasedSlot, lease: Lease) -> None:
        if slot.resets >= self.transitions.policy.recovery.max_resets:
            if not await self.transitions.delete_after_failed_resets(slot, holds_lease=True):
                await self.transitions.abandon_step(slot, wanted="mark_deleting")
            return
        backend = self.backends[slot.backend]
        try:
            container_id = await lease.call(
                lambda timeout_s: backend.ensure(spec_of(slot), timeout_s=timeout_s)
            )
        except StillRunning as error:
            await self._stop_later(slot, error)
            return
        except BackendError as error:
            event_log.backend_unavailable("reset.unavailable", error, slot=slot.slot_id)
            # A wrong setting is not the slot's fault: it waits for somebody to put it right.
            delay_s = _REFUSED_S if isinstance(error, BackendRefused) else None
            await self.transitions.postpone(slot, after=error, delay_s=delay_s, problem=str(error))
            return
        results = await self.transitions.database.atomically(
            lock(slot.pool_name),
            (
                "reset_slot",
                {
                    "slot_id": slot.slot_id,
                    "version": slot.version,
                    "container_id": container_id,
                    "image": slot.image,
                    "limits": slot.limits,
                },
            ),
            *match_calls(slot.pool_name),
        )
        if reset := results[1]:
            event_log.slot_transition(
                to_slot_change(reset[0]), old=SlotStatus.ERROR, new=SlotStatus.IDLE, reason="reset"
            )
            if slot.container_id not in (None, container_id):
                event_log.container_recreated(slot, container_id, attempt=slot.resets + 1)
        else:
            await self.transitions.abandon_step(slot, wanted="reset")
        self.matcher.matched(results)

    async def delete(self, slot: LeasedSlot, lease: Lease) -> None:
        """Remove the container, see that it is gone by the backend's own word, remove the slot."""
        backend, container_id = self.backends[slot.backend], slot.container_id
        try:
            if container_id is not None and not await self._is_gone(backend, slot, lease):
                # Asked for once; a lagging backend is given time before it is asked again.
                delay_s = (
                    self.transitions.policy.observe_interval_s if backend.status_lag_s else None
                )
                await self.transitions.postpone(slot, delay_s=delay_s)
                return
        except BackendError as error:
            event_log.backend_unavailable("delete.unavailable", error, slot=slot.slot_id)
            await self.transitions.postpone(slot, after=error)
            return
        results = await self.transitions.database.atomically(
            lock(slot.pool_name),
            ("remove_slot", {"slot_id": slot.slot_id, "version": slot.version}),
            *match_calls(slot.pool_name),
        )
        if removed := results[1]:
            event_log.slot_transition(
                to_slot_change(removed[0]),
                old=SlotStatus.DELETING,
                new=None,
                reason="its container is gone",
            )
        else:
            await self.transitions.abandon_step(slot, wanted="remove")
        self.matcher.matched(results)

    async def _is_gone(self, backend: Backend, slot: LeasedSlot, lease: Lease) -> bool:
        container_id = slot.container_id
        assert container_id is not None
        await lease.call(lambda timeout_s: backend.delete(container_id, timeout_s=timeout_s))
        seen = await lease.call(
            lambda timeout_s: backend.observe([container_id], timeout_s=timeout_s)
        )
        return seen[container_id].state is ContainerState.GONE

    async def _stop_later(self, slot: LeasedSlot, error: StillRunning) -> None:
        """Its container does not stop: try again, and in the end delete it."""
        lag_s = self.backends[slot.backend].status_lag_s
        patience_s = lag_s + self.transitions.policy.stop_patience_s
        if stop_is_overdue(stop_issued_at=slot.stop_issued_at, now=slot.now, limit_s=patience_s):
            reason = f"its container does not stop: {error}"
            if not await self.transitions.mark_deleting(slot, reason=reason, holds_lease=True):
                await self.transitions.abandon_step(slot, wanted="mark_deleting")
        else:
            await self.transitions.postpone(slot, problem=str(error), stop_issued=True)
