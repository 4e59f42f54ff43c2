"""Seeing that a slot's place exists, is free, and wants what its pool wants.

Names are unique at the daemon, so that of replicas that make a place at once one makes it and the
others find it.
"""

from botpool.backends.docker import refusals
from botpool.backends.docker.daemon import Crossed, Daemon
from botpool.backends.docker.places import Draft, Kind, Place, is_slot_name, place_id
from botpool.backends.docker.standing import stands_alone
from botpool.backends.docker.stopping import stop
from botpool.backends.protocol import ContainerSpec
from botpool.domain.errors import BackendRefused, ContainerGone, StillRunning
from botpool.domain.ids import AssignmentId, ContainerId

_NONE_YET = AssignmentId(0)
_FOREIGN_AFTER = 20
"""So often a name is found taken, and nobody of ours there, before it must be another's."""


async def ensure(daemon: Daemon, spec: ContainerSpec) -> ContainerId:
    if not is_slot_name(spec.name):
        raise BackendRefused(f"pools.{spec.pool_name}", f"{spec.name!r} cannot name a container")
    container_id = place_id(daemon.config.installation_id, spec.name)
    taken = 0
    while True:
        try:
            if await _is_as_wanted(daemon, await daemon.place(container_id), spec):
                return container_id
        except ContainerGone:
            nothing = Draft(kind=Kind.VACANT, assignment_id=_NONE_YET, spec=spec)
            try:
                await daemon.create(nothing, name=container_id)
            except Crossed:
                taken += 1
                if taken >= _FOREIGN_AFTER:
                    raise refusals.taken_name(container_id, spec) from None
                await daemon.let_others_end(container_id)


async def _is_as_wanted(daemon: Daemon, place: Place, spec: ContainerSpec) -> bool:
    """Else one step was made: read again."""
    if place.coming or any(each.is_up for each in place.containers):
        await stop(daemon, place.id, None)
        if any(each.is_up for each in (await daemon.place(place.id)).containers):
            raise StillRunning(f"the container {place.id} does not end")
        return False
    if place.newest.spec == spec:
        return await stands_alone(daemon, place, place.newest)
    wanted = Draft(kind=Kind.VACANT, assignment_id=place.newest.assignment_id, spec=spec)
    try:
        await daemon.create(wanted, name=wanted.name_beside(place.id))
    except Crossed:
        await daemon.let_others_end(place.id)
    return False
