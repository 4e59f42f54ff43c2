"""Letting one container stand for a place alone, under the place's name."""

from contextlib import suppress

from botpool.backends.docker.daemon import Crossed, Daemon
from botpool.backends.docker.places import Container, Place


async def stands_alone(daemon: Daemon, place: Place, container: Container) -> bool:
    """Whether it did already. Else others are removed, and then it gets the name: read again.

    Nothing that runs is removed: Docker itself refuses it.
    """
    others = [each for each in place.containers if each is not container]
    if not others and container.name == place.id:
        return True
    with suppress(Crossed):
        for each in others:
            await daemon.remove(each)
        if container.name != place.id:
            await daemon.rename(container, place.id)
        return False
    await daemon.let_others_end(place.id)
    return False
