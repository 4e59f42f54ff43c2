"""A start: at most one run for each assignment, and none for one that was stopped.

The bot's container is made beside what stands there, before the fence is read for the last time; a
stop makes its own mark before it looks for the bot's container. So one of the two always sees the
other. What happens if the process dies:

- before the container is made: nothing has changed; the same start again makes it;
- after it: the same start finds it under its assignment, and goes on with it;
- after Docker took the start: the same start finds it up, or ended, and leaves it alone.
"""

from contextlib import suppress

from botpool.backends.docker.daemon import Crossed, Daemon
from botpool.backends.docker.places import CREATED, Container, Draft, Kind, Place
from botpool.backends.docker.pulling import Pulls
from botpool.backends.docker.standing import stands_alone
from botpool.backends.protocol import StartRequest
from botpool.domain.errors import StartSuperseded


async def start(daemon: Daemon, pulls: Pulls, order: StartRequest) -> None:
    while True:
        place = await daemon.place(order.container_id)
        own = place.bot(order.assignment_id)
        try:
            place.require_open(order.assignment_id)
        except StartSuperseded:
            if own is not None and own.state == CREATED:
                with suppress(Crossed):
                    await daemon.remove(own)
            raise
        try:
            if own is None:
                await _make(daemon, pulls, place, order)
            elif own.state != CREATED:
                await _remove_twins(daemon, place, own)
                return
            elif await stands_alone(daemon, place, own):
                await daemon.start(own)
                return
        except Crossed:
            await daemon.let_others_end(order.container_id)


async def _make(daemon: Daemon, pulls: Pulls, place: Place, order: StartRequest) -> None:
    spec = place.newest.spec
    if await daemon.has_image(spec.image):
        bot = Draft(kind=Kind.BOT, assignment_id=order.assignment_id, spec=spec)
        name = bot.name_beside(place.id)
        await daemon.create(bot, name=name, environment=order.environment)
        return
    pending = Draft(kind=Kind.PENDING, assignment_id=order.assignment_id, spec=spec)
    if place.newest.kind is not Kind.PENDING or place.newest.assignment_id != order.assignment_id:
        await daemon.create(pending, name=pending.name_beside(place.id))
        return
    if await stands_alone(daemon, place, place.newest):
        await pulls.pulled(spec, order.assignment_id, within_s=daemon.remaining_s())


async def _remove_twins(daemon: Daemon, place: Place, own: Container) -> None:
    """What another replica made for the same assignment, before it saw that it was made."""
    for each in place.containers:
        if each is not own and each.kind is Kind.BOT and each.assignment_id == own.assignment_id:
            await daemon.remove(each)
