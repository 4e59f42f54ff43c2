"""The end of a reconciler step that changes no status: postpone, abandon, return the lease.

Each write is fenced by the slot's version. After a crash before the commit, the lease expires and
another replica repeats the step. A repeated or late write changes nothing.
"""

from dataclasses import dataclass

from botpool.backends.protocol import ContainerSpec
from botpool.domain.errors import BackendError, BudgetExhausted
from botpool.domain.fenced_slots import LeasedSlot
from botpool.domain.ids import AssignmentId
from botpool.engine.observability import event_log
from botpool.engine.service import Service
from botpool.store.slot_leases import postpone_step, return_lease

_MAX_DOUBLINGS = 10


def container_spec(slot: LeasedSlot) -> ContainerSpec:
    """Return the container that the slot's pool currently specifies."""
    return ContainerSpec(
        name=slot.slot_name,
        pool_name=slot.pool_name,
        image=slot.image,
        cpus=slot.cpus,
        memory_mb=slot.memory_mb,
        stop_grace_s=slot.stop_grace_s,
        abandoned_through=slot.abandoned_through,
    )


def ended_assignments(slot: LeasedSlot) -> AssignmentId:
    """Return the newest assignment whose run a step may end to prepare the slot's container.

    Runs before the slot's own run may end. A slot without a run gets none before
    this step's lease ends or the slot changes, and later assignments have larger ids.
    """
    if slot.run is not None:
        return AssignmentId(slot.run - 1)
    return slot.newest_assignment_id


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotSteps(Service):
    """Ends steps of leased slots and returns their leases."""

    owner: str
    """The name under which this replica takes leases."""

    async def postpone(
        self,
        slot: LeasedSlot,
        *,
        after: BackendError | None = None,
        delay_s: float | None = None,
        problem: str | None = None,
        stop_issued: bool = False,
        stop_unreliable: bool = False,
        delete_issued: bool = False,
    ) -> None:
        """Return the lease and repeat the step after `delay_s`, by default with a growing backoff.

        The step is not repeated before the time that an exhausted request budget (`after`) names.
        """
        if delay_s is None:
            backoff_s = self.policy.step_backoff_s * 2 ** min(slot.step_attempts, _MAX_DOUBLINGS)
            delay_s = min(backoff_s, self.policy.step_backoff_max_s)
        if isinstance(after, BudgetExhausted):
            delay_s = max(after.retry_after_s, delay_s)
        version = await postpone_step(
            self.database,
            **slot.fence,
            delay_s=delay_s,
            problem=problem,
            stop_issued=stop_issued,
            stop_unreliable=stop_unreliable,
            delete_issued=delete_issued,
        )
        if version is None:
            await self.abandon(slot, action="postpone")

    async def abandon(self, slot: LeasedSlot, *, action: str) -> None:
        """End a step whose fenced write failed: the slot has changed. Undo nothing."""
        event_log.write_fenced(name=slot.slot_name, slot_id=slot.slot_id, wanted=action)
        self.metrics.fenced(action)
        await self.return_lease(slot)
        self.wakeups.wake_reconcilers()

    async def return_lease(self, slot: LeasedSlot) -> None:
        """Return the lease, so that the slot's next step can run at once."""
        await return_lease(
            self.database, slot_id=slot.slot_id, owner=self.owner, lease_until=slot.lease_until
        )
