"""A stop: the fence first, then what may still come to run, then what runs.

Done again after a crash, each step finds what the last one left: a fence that stands is not made
twice, what was removed is not there. Without an assignment it is the newest that is meant. A later
assignment's container is never touched: a late stop must not hit the next tenant.
"""

from contextlib import suppress

from botpool.backends.docker.daemon import Crossed, Daemon
from botpool.backends.docker.places import Draft, Kind
from botpool.backends.docker.standing import stands_alone
from botpool.domain.ids import AssignmentId, ContainerId


async def stop(
    daemon: Daemon, container_id: ContainerId, assignment_id: AssignmentId | None
) -> None:
    """It may return before all has ended: a look says."""
    was_asked = False
    while True:
        place = await daemon.place(container_id)
        through = place.newest.assignment_id if assignment_id is None else assignment_id
        concerned = [each for each in place.containers if each.assignment_id <= through]
        try:
            if not place.is_closed_to(through):
                fence = Draft(kind=Kind.VACANT, assignment_id=through, spec=place.newest.spec)
                await daemon.create(fence, name=fence.name_beside(container_id))
                continue
            if coming := [each for each in concerned if each.may_come_up]:
                for each in coming:
                    await daemon.remove(each)
                continue
            up = [each for each in concerned if each.is_up]
            if up and not was_asked:
                was_asked = True
                for each in up:
                    await daemon.stop(each)
                continue
        except Crossed:
            await daemon.let_others_end(container_id)
            continue
        if place.newest.kind is not Kind.VACANT or any(each.is_up for each in place.containers):
            return
        if await stands_alone(daemon, place, place.newest):
            return


async def remove(daemon: Daemon, container_id: ContainerId) -> None:
    """Everything that stands there, running or not. ContainerGone once nothing does."""
    await daemon.end_removals(container_id)
    while True:
        place = await daemon.place(container_id)
        for each in place.containers:
            with suppress(Crossed):
                await daemon.remove(each, force=True)
        await daemon.let_others_end(container_id)
