"""The steps of a releasing slot: stop, see it stopped, then free it and hand it on.

A backend whose status follows at once is looked at in the same step. Where it lags, the stop is
sent, and the pool's regular look confirms it: asking for each slot would eat the backend's budget.

Nothing is handed on before the stop is confirmed. If the process dies before, during or after the
stop, the slot is still `releasing` and the stop is made again, which is harmless; the freeing and
the hand-over to the next bot are one transaction (`engine/lifecycle/slot_handover.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from botpool.backends.protocol import Backend
from botpool.domain.errors import BackendError, ContainerGone, StillRunning
from botpool.domain.ids import ContainerId
from botpool.domain.observation import ACTIVE_DEPLOYMENT, ContainerState, Observation
from botpool.domain.records import LeasedSlot, ObservedSlot
from botpool.domain.stop_confirmation import stop_is_confirmed, stop_is_overdue
from botpool.engine.lifecycle.slot_handover import SlotHandover
from botpool.engine.lifecycle.transitions import Transitions
from botpool.engine.observability import event_log
from botpool.engine.runtime.leases import Lease

_STOPS = 5
"""How many times the patience of one stop they may take in all."""


class _DoesNotStop(Exception):
    """BotStopper again will not help: its container must go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Releaser:
    transitions: Transitions
    freeing: SlotHandover
    backends: Mapping[str, Backend]

    async def step(self, slot: LeasedSlot, lease: Lease) -> None:
        if slot.container_id is None or _cannot_run(slot):
            await self.free(slot)
            return
        backend = self.backends[slot.backend]
        try:
            if slot.delete_issued_at is None:
                state = await self._stop_and_look(backend, slot, lease)
            else:
                state = await self._delete_and_look(backend, slot, lease)
        except ContainerGone:
            state = ContainerState.GONE
        except _DoesNotStop:
            # Written before it is done: from now on no look gives this container to anybody.
            await self.transitions.postpone(slot, delay_s=0, delete_issued=True)
            return
        except BackendError as error:
            event_log.backend_unavailable("release.unavailable", error, slot=slot.slot_id)
            await self.transitions.postpone(slot, after=error)
            return
        if state is not None:
            await self.free(slot, container_gone=state is ContainerState.GONE)
        elif backend.status_lag_s:
            # The looks confirm it; done again when the status must have followed by then.
            again_s = backend.status_lag_s + self.transitions.policy.observe_interval_s
            await self.transitions.postpone(
                slot, delay_s=again_s, stop_issued=True, stop_unreliable=_is_doubted(slot)
            )
        else:
            await self.transitions.postpone(slot, stop_issued=True)

    async def judge(self, slot: ObservedSlot, seen: Observation) -> None:
        """Free a slot whose container a look shows to have ended."""
        assert slot.stop_issued_at is not None, "only slots whose stop was sent are looked at"
        if slot.delete_issued_at is not None and seen.state is not ContainerState.GONE:
            return  # The backend may delete it later: nobody gets it any more.
        lag_s = self.backends[slot.backend].status_lag_s
        if stop_is_confirmed(
            seen,
            observed_running=slot.observed_running_at is not None,
            stop_issued_at=slot.stop_issued_at,
            status_unreliable_at=slot.status_unreliable_at,
            now=slot.now,
            status_lag_s=lag_s,
        ):
            await self.free(slot, container_gone=seen.state is ContainerState.GONE)
        elif seen.deployment in ACTIVE_DEPLOYMENT:
            patience_s = _STOPS * (lag_s + self.transitions.policy.stop_patience_s)
            await self.transitions.clear_stop(slot, patience_s=patience_s)

    async def _stop_and_look(
        self, backend: Backend, slot: LeasedSlot, lease: Lease
    ) -> ContainerState | None:
        """The state in which the container was seen ended; None while that is not certain."""
        container_id = slot.container_id
        assert container_id is not None
        patience_s = backend.status_lag_s + self.transitions.policy.stop_patience_s
        stopped_at = None if _is_doubted(slot) else slot.stop_issued_at
        overdue = stop_is_overdue(stop_issued_at=stopped_at, now=slot.now, limit_s=patience_s)
        try:
            if not overdue:
                await lease.call(
                    lambda timeout_s: backend.stop(
                        container_id, slot.assignment_id, timeout_s=timeout_s
                    )
                )
        except StillRunning:
            # The backend answers, but does not let its deployment be cancelled.
            if stop_is_overdue(stop_issued_at=slot.phase_at, now=slot.now, limit_s=patience_s):
                raise _DoesNotStop from None
            raise
        if backend.status_lag_s and not overdue:
            return None
        seen = await self._observe(backend, container_id, lease)
        if stop_is_confirmed(
            seen,
            # Long after the stop, as here where it is overdue, the lag has passed anyway.
            observed_running=slot.running_at is not None and not backend.status_lag_s,
            stop_issued_at=slot.stop_issued_at or slot.now,
            status_unreliable_at=slot.status_unreliable_at if backend.status_lag_s else None,
            now=slot.now,
            status_lag_s=backend.status_lag_s,
        ):
            return seen.state
        if overdue:
            raise _DoesNotStop
        return None

    async def _delete_and_look(
        self, backend: Backend, slot: LeasedSlot, lease: Lease
    ) -> ContainerState | None:
        """GONE once the backend says so; None until then."""
        container_id = slot.container_id
        assert container_id is not None
        await lease.call(lambda timeout_s: backend.delete(container_id, timeout_s=timeout_s))
        seen = await self._observe(backend, container_id, lease)
        return seen.state if seen.state is ContainerState.GONE else None

    async def _observe(
        self, backend: Backend, container_id: ContainerId, lease: Lease
    ) -> Observation:
        seen = await lease.call(
            lambda timeout_s: backend.observe([container_id], timeout_s=timeout_s)
        )
        return seen[container_id]

    async def free(self, slot: LeasedSlot | ObservedSlot, *, container_gone: bool = False) -> None:
        """Free the slot and serve the queue with it, in one transaction."""
        freed = await self.freeing.free(slot, container_gone=container_gone)
        if freed is None:
            if isinstance(slot, LeasedSlot):
                await self.transitions.abandon_step(slot, wanted="free")
        elif freed["others_wait"]:
            # It may have led a pull, or used the budget of starts.
            await self.transitions.image_gate.open(slot.backend)


def _cannot_run(slot: LeasedSlot) -> bool:
    """Was no start let through for this assignment? Then nothing of it can run."""
    signs = (slot.start_allowed_at, slot.start_issued_at, slot.running_at)
    return all(sign is None for sign in signs)


def _is_doubted(slot: LeasedSlot) -> bool:
    """Was the stop sent before the backend was last blind? It may have reached nobody."""
    stopped_at, status_unreliable_at = slot.stop_issued_at, slot.status_unreliable_at
    return (
        stopped_at is not None
        and status_unreliable_at is not None
        and stopped_at <= status_unreliable_at
    )
