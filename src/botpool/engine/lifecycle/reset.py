"""The steps of slots without a bot: reset a slot in `error`, delete a slot in `deleting`.

A slot with a bot enters `error` only after its stop is confirmed; a failed standby, which has no
bot, may still run. A reset ensures that the container exists and is stopped, or creates it again,
and gives the slot to the queue. After a stuck deployment it deletes the container first. Resets
count until the slot is busy again; after the maximum, the slot is deleted. Each step may be
repeated after a crash.
"""

from dataclasses import dataclass

from botpool.backends.protocol import Backend
from botpool.domain import reasons
from botpool.domain.errors import BackendError, BackendRefused, StillRunning
from botpool.domain.fenced_slots import LeasedSlot
from botpool.domain.ids import ContainerId
from botpool.domain.observation import ContainerState
from botpool.domain.states import SlotStatus
from botpool.domain.stop_confirmation import stop_is_overdue
from botpool.engine.admission.matcher import Matcher
from botpool.engine.lifecycle.image_digests import with_known_digest
from botpool.engine.lifecycle.slot_deletion import SlotDeletion
from botpool.engine.lifecycle.slot_steps import SlotSteps, container_spec, ended_assignments
from botpool.engine.observability import event_log
from botpool.engine.runtime.leases import Lease
from botpool.engine.service import Service
from botpool.store.pools import lock_pool
from botpool.store.slots import remove_slot, reset_slot

_REFUSED_DELAY_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Resetter(Service):
    """Resets and deletes slots without a bot."""

    steps: SlotSteps
    deletion: SlotDeletion
    matcher: Matcher

    async def reset(self, slot: LeasedSlot, lease: Lease) -> None:
        """Ensure that the container exists and is stopped, then make the slot idle."""
        if slot.resets >= self.policy.recovery.max_resets:
            if not await self.deletion.start_after_failed_resets(slot, holds_lease=True):
                await self.steps.abandon(slot, action="delete")
            return
        slot, backend = with_known_digest(slot), self.backends[slot.backend]
        try:
            if slot.recreate_container and not await self._delete_stuck(backend, slot, lease):
                return
            container_id = await lease.call(
                lambda timeout_s: backend.ensure(
                    container_spec(slot), stop_through=ended_assignments(slot), timeout_s=timeout_s
                )
            )
        except StillRunning as error:
            await self._retry_stop(slot, error)
        except BackendError as error:
            event_log.backend_unavailable("reset.unavailable", error, slot=slot.slot_id)
            # A refusal is caused by settings, not by the slot: it does not count as a reset.
            delay_s = _REFUSED_DELAY_S if isinstance(error, BackendRefused) else None
            await self.steps.postpone(slot, after=error, delay_s=delay_s, problem=str(error))
        else:
            await self._commit_reset(slot, container_id)

    async def delete(self, slot: LeasedSlot, lease: Lease) -> None:
        """Delete the container, and remove the slot once the backend reports the container gone."""
        backend = self.backends[slot.backend]
        try:
            if slot.container_id is not None and not await self._delete_container(
                backend, slot, slot.container_id, lease
            ):
                await self._await_deletion(backend, slot)
                return
        except BackendError as error:
            event_log.backend_unavailable("delete.unavailable", error, slot=slot.slot_id)
            await self.steps.postpone(slot, after=error)
            return
        await self._commit_removal(slot)

    async def _commit_reset(self, slot: LeasedSlot, container_id: ContainerId) -> None:
        reset = reset_slot.statement(
            slot_id=slot.slot_id,
            version=slot.version,
            container_id=container_id,
            image=slot.image,
            limits=slot.limits,
        )
        match = self.matcher.prepare_match(slot.pool_name)
        lock = lock_pool.statement(pool_name=slot.pool_name)
        await self.database.commit([lock, reset, *match.statements])
        if reset.result is None:
            await self.steps.abandon(slot, action="reset")
        else:
            event_log.slot_transition(
                reset.result, old=SlotStatus.ERROR, new=SlotStatus.IDLE, reason=reasons.RESET
            )
            former_id = slot.container_id or slot.gone_container_id
            recreated = slot.gone_container_id is not None or slot.recreate_container
            if recreated or former_id not in (None, container_id):
                event_log.container_recreated(slot, old_id=former_id, new_id=container_id)
        self.matcher.report(match)

    async def _commit_removal(self, slot: LeasedSlot) -> None:
        remove = remove_slot.statement(slot_id=slot.slot_id, version=slot.version)
        match = self.matcher.prepare_match(slot.pool_name)
        lock = lock_pool.statement(pool_name=slot.pool_name)
        await self.database.commit([lock, remove, *match.statements])
        if remove.result is None:
            await self.steps.abandon(slot, action="remove")
        else:
            event_log.slot_transition(
                remove.result, old=SlotStatus.DELETING, new=None, reason=reasons.CONTAINER_GONE
            )
        self.matcher.report(match)

    async def _delete_container(
        self, backend: Backend, slot: LeasedSlot, container_id: ContainerId, lease: Lease
    ) -> bool:
        """Delete the container; returns whether the backend reports it gone."""
        await lease.call(
            lambda timeout_s: backend.delete(
                container_id, stop_through=ended_assignments(slot), timeout_s=timeout_s
            )
        )
        observations = await lease.call(
            lambda timeout_s: backend.observe([container_id], timeout_s=timeout_s)
        )
        return observations[container_id].state is ContainerState.GONE

    async def _delete_stuck(self, backend: Backend, slot: LeasedSlot, lease: Lease) -> bool:
        """Delete the container of a stuck deployment; False if the backend needs more time."""
        container_id = slot.container_id
        if container_id is None or await self._delete_container(backend, slot, container_id, lease):
            return True
        await self._await_deletion(backend, slot)
        return False

    async def _await_deletion(self, backend: Backend, slot: LeasedSlot) -> None:
        """Repeat the deletion later; a backend with status lag gets time for it."""
        delay_s = self.policy.observe_interval_s if backend.status_lag_s else None
        await self.steps.postpone(slot, delay_s=delay_s)

    async def _retry_stop(self, slot: LeasedSlot, error: StillRunning) -> None:
        """Repeat the reset of a container that does not stop, or delete the slot in the end."""
        lag_s = self.backends[slot.backend].status_lag_s
        limit_s = lag_s + self.policy.stop_timeout_s
        if stop_is_overdue(stop_issued_at=slot.stop_issued_at, now=slot.now, limit_s=limit_s):
            reason = reasons.container_does_not_stop(str(error))
            if not await self.deletion.start(
                slot.slot_id, version=slot.version, reason=reason, holds_lease=True
            ):
                await self.steps.abandon(slot, action="delete")
        else:
            await self.steps.postpone(slot, problem=str(error), stop_issued=True)
