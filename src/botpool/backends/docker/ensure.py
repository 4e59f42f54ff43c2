"""Ensures that a slot's container exists, is stopped and has the spec of its pool.

Container names are unique at the daemon: when several replicas create a slot's container at the
same time, one succeeds and the others find it.
"""

from botpool.backends.docker import error_messages
from botpool.backends.docker.daemon import ConcurrentChange, Daemon
from botpool.backends.docker.promote import promote
from botpool.backends.docker.slot_containers import (
    ContainerDraft,
    ContainerKind,
    SlotContainers,
    container_id_of,
    is_slot_name,
)
from botpool.backends.docker.stop import stop
from botpool.backends.protocol import ContainerSpec
from botpool.domain.errors import BackendRefused, ContainerGone, StillRunning
from botpool.domain.ids import AssignmentId, ContainerId

_MAX_NAME_CONFLICTS = 20
"""After this many name conflicts, `ensure` reports that a foreign container has the slot's name."""


async def ensure(daemon: Daemon, spec: ContainerSpec, through: AssignmentId) -> ContainerId:
    """End runs up to the assignment `through`; a new container is fenced for them too."""
    if not is_slot_name(spec.name):
        raise BackendRefused(
            f"pools.{spec.pool_name}", f"{spec.name!r} is not a valid container name"
        )
    container_id = container_id_of(daemon.config.installation_id, spec.name)
    conflicts = 0
    while True:
        try:
            if await _take_step_unless_ready(
                daemon, await daemon.read_slot(container_id), spec, through
            ):
                return container_id
        except ContainerGone:
            placeholder = ContainerDraft(ContainerKind.PLACEHOLDER, through, spec)
            try:
                await daemon.create(placeholder, name=container_id)
            except ConcurrentChange:
                conflicts += 1
                if conflicts >= _MAX_NAME_CONFLICTS:
                    raise error_messages.name_taken(container_id, spec) from None
                await daemon.wait_for_others(container_id)


async def _take_step_unless_ready(
    daemon: Daemon, slot: SlotContainers, spec: ContainerSpec, through: AssignmentId
) -> bool:
    """Return True if the slot is ready. Otherwise take one step and return False."""
    if slot.active:
        slot.require_active_through(through)
        await stop(daemon, slot.id, through)
        slot = await daemon.read_slot(slot.id)
        if any(c.is_running for c in slot.containers if c.assignment_id <= through):
            raise StillRunning(f"container {slot.id} has not stopped yet")
        return False
    if slot.newest.spec == spec:
        return await promote(daemon, slot, slot.newest)
    fence = max(slot.newest.assignment_id, through)
    placeholder = ContainerDraft(ContainerKind.PLACEHOLDER, fence, spec)
    try:
        await daemon.create(placeholder, name=placeholder.temporary_name(slot.id))
    except ConcurrentChange:
        await daemon.wait_for_others(slot.id)
    return False
