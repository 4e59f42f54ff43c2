"""Makes one container the only container of its slot, with the slot's name."""

from contextlib import suppress

from botpool.backends.docker.daemon import ConcurrentChange, Daemon
from botpool.backends.docker.slot_containers import Container, SlotContainers


async def promote(
    daemon: Daemon, slot: SlotContainers, container: Container, *, is_new: bool = False
) -> bool:
    """Return True if the container already is alone and has the slot's name.

    Otherwise remove the other containers, rename this one and return False: the caller reads the
    slot again. Docker refuses to remove a running container.

    `is_new`: the caller created the container before it read the slot. Then True also follows the
    rename: no call starts a container under its temporary name, so it has not run and ended since.
    """
    others = [other for other in slot.containers if other is not container]
    if not others and container.name == slot.id:
        return True
    with suppress(ConcurrentChange):
        for other in others:
            await daemon.remove(other)
        if container.name != slot.id:
            await daemon.rename(container, slot.id)
            return is_new
        return False
    await daemon.wait_for_others(slot.id)
    return False
