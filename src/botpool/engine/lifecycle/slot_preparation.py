"""The step of an idle slot that gets its container for the pool's floor of idle slots.

The keeper of standbys makes the slot due, and the slot stays assignable. Another replica continues
after a crash:

- before the container is created: the row is due; it repeats the step;
- after that, before the commit: it finds the container by name and ownership mark;
- after the commit: the slot is prepared, and nothing is due.

A claim that comes first changes the version. The late write then changes nothing, and the bot's own
deployment finds the container.
"""

from dataclasses import dataclass

from botpool.domain.errors import BackendError, BackendRefused
from botpool.domain.fenced_slots import LeasedSlot
from botpool.engine.lifecycle.image_digests import ImageDigests
from botpool.engine.lifecycle.slot_steps import SlotSteps, container_spec, ended_assignments
from botpool.engine.observability import event_log
from botpool.engine.runtime.leases import Lease
from botpool.engine.service import Service
from botpool.store.standbys import record_prepared_slot

_REFUSED_DELAY_S = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotPreparer(Service):
    """Creates the containers of idle slots before a bot needs them."""

    steps: SlotSteps
    image_digests: ImageDigests

    async def prepare(self, slot: LeasedSlot, lease: Lease) -> None:
        """Ensure that the container exists with the pool's image; it does not start."""
        slot, backend = await self.image_digests.resolve(slot, lease), self.backends[slot.backend]
        try:
            container_id = await lease.call(
                lambda timeout_s: backend.ensure(
                    container_spec(slot), stop_through=ended_assignments(slot), timeout_s=timeout_s
                )
            )
        except BackendError as error:
            event_log.backend_unavailable("prepare.unavailable", error, slot=slot.slot_id)
            delay_s = _REFUSED_DELAY_S if isinstance(error, BackendRefused) else None
            await self.steps.postpone(slot, after=error, delay_s=delay_s)
            return
        prepared = await record_prepared_slot(
            self.database,
            slot_id=slot.slot_id,
            version=slot.version,
            container_id=container_id,
            image_host=backend.image_host,
            image=slot.image,
            limits=slot.limits,
        )
        if prepared is None:
            await self.steps.abandon(slot, action="prepare")
