"""Starts a bot's container: at most one run per assignment, and none for a stopped assignment.

A start creates the bot's container before it reads the fence for the last time; a stop creates its
fence before it reads the bot's container. So at least one of the two finds the other. After a
crash, the same start

- creates the container, if the crash came before its creation;
- finds the container by its assignment and continues, if the crash came after the creation;
- finds the container running or ended and leaves it, if Docker had accepted the start.

A bot waits for this call, so it sends no request that another one makes unnecessary: the creation
shows whether the daemon has the image, and a call that created and renamed the container starts it
without a further read. A stop that writes its fence after the last read finds the container.
"""

from contextlib import suppress

from botpool.backends.docker.daemon import ConcurrentChange, Daemon, ImageMissing
from botpool.backends.docker.promote import promote
from botpool.backends.docker.pulls import Pulls
from botpool.backends.docker.slot_containers import (
    CREATED,
    Container,
    ContainerDraft,
    ContainerKind,
    SlotContainers,
)
from botpool.backends.protocol import StartRequest
from botpool.domain.errors import StartSuperseded


async def start(daemon: Daemon, pulls: Pulls, request: StartRequest) -> None:
    created: str | None = None
    while True:
        slot = await daemon.read_slot(request.container_id)
        own = slot.bot_container(request.assignment_id)
        try:
            slot.require_startable(request.assignment_id)
        except StartSuperseded:
            if own is not None and own.state == CREATED:
                with suppress(ConcurrentChange):
                    await daemon.remove(own)
            raise
        try:
            if own is None:
                created = await _create_or_pull(daemon, pulls, slot, request)
            elif own.state != CREATED:
                await _remove_duplicates(daemon, slot, own)
                return
            elif await promote(daemon, slot, own, is_new=own.docker_id == created):
                await daemon.start(own)
                return
        except ConcurrentChange:
            await daemon.wait_for_others(request.container_id)


async def _create_or_pull(
    daemon: Daemon, pulls: Pulls, slot: SlotContainers, request: StartRequest
) -> str | None:
    """Create the bot's container and return its Docker id; without its image, pull that first."""
    spec = slot.newest.spec
    bot = ContainerDraft(ContainerKind.BOT, request.assignment_id, spec)
    with suppress(ImageMissing):
        return await daemon.create(bot, name=bot.temporary_name(slot.id), request=request)
    newest = slot.newest
    if newest.kind is not ContainerKind.PENDING or newest.assignment_id != request.assignment_id:
        pending = ContainerDraft(ContainerKind.PENDING, request.assignment_id, spec)
        await daemon.create(pending, name=pending.temporary_name(slot.id))
    elif await promote(daemon, slot, slot.newest):
        await pulls.wait(spec, request.assignment_id, within_s=daemon.remaining_s())
    return None


async def _remove_duplicates(daemon: Daemon, slot: SlotContainers, own: Container) -> None:
    """Remove containers that other replicas created for the same assignment."""
    for container in slot.containers:
        if (
            container is not own
            and container.kind is ContainerKind.BOT
            and container.assignment_id == own.assignment_id
        ):
            await daemon.remove(container)
