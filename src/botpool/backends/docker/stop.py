"""Stops a slot: creates the fence, removes containers that may still start, ends running ones.

After a crash, each step finds the result of the previous call: an existing fence is not created
again. A stop never touches the container of a later assignment, so a late stop cannot hit the next
bot.
"""

from contextlib import suppress

from botpool.backends.docker.daemon import ConcurrentChange, Daemon
from botpool.backends.docker.promote import promote
from botpool.backends.docker.slot_containers import ContainerDraft, ContainerKind
from botpool.backends.protocol import StopMode
from botpool.domain.ids import AssignmentId, ContainerId


async def stop(
    daemon: Daemon,
    container_id: ContainerId,
    through: AssignmentId,
    mode: StopMode = StopMode.ASK_THEN_KILL,
) -> None:
    """Stop the containers up to the assignment. May return before all of them have stopped."""
    stop_was_sent = False
    while True:
        slot = await daemon.read_slot(container_id)
        affected = [c for c in slot.containers if c.assignment_id <= through]
        try:
            if not slot.is_fenced(through):
                fence = ContainerDraft(ContainerKind.PLACEHOLDER, through, slot.newest.spec)
                await daemon.create(fence, name=fence.temporary_name(container_id))
                continue
            if starting := [container for container in affected if container.may_start]:
                for container in starting:
                    await daemon.remove(container)
                continue
            running = [container for container in affected if container.is_running]
            if running and not stop_was_sent:
                stop_was_sent = True
                for container in running:
                    await daemon.stop(container, mode)
                continue
        except ConcurrentChange:
            await daemon.wait_for_others(container_id)
            continue
        if slot.newest.kind is not ContainerKind.PLACEHOLDER or any(
            container.is_running for container in slot.containers
        ):
            return
        if await promote(daemon, slot, slot.newest):
            return


async def remove_slot(daemon: Daemon, container_id: ContainerId, through: AssignmentId) -> None:
    """Remove all containers of the slot, running or not. Ends with ContainerGone.

    The slot's name may belong to a later container by now: `CallSuperseded`.
    """
    await daemon.finish_removals(container_id)
    while True:
        slot = await daemon.read_slot(container_id)
        slot.require_all_through(through)
        for container in slot.containers:
            with suppress(ConcurrentChange):
                await daemon.remove(container, force=True)
        await daemon.wait_for_others(container_id)
