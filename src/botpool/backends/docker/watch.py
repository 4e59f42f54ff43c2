"""The daemon's events as hints. It forgets them when it restarts, and the looks stand behind."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import aiohttp
from aiodocker import DockerError

from botpool.backends.docker import places
from botpool.backends.docker.config import DockerConfig
from botpool.backends.docker.connection import Connection
from botpool.domain.errors import BackendError
from botpool.domain.ids import ContainerId

_TELLING = ["die", "destroy"]
"""Not a start: whether a bot has come up its agent says. One that ends before is tried again."""
_HUNG_UP = (DockerError, aiohttp.ClientError, OSError)
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 5.0
_LISTEN_S = 600.0
"""Then it is asked anew: of a line that went dead without a word nobody would ever hear."""


async def hints(
    connection: Connection,
    config: DockerConfig,
    owned: Callable[[], Awaitable[Sequence[ContainerId]]],
) -> AsyncIterator[ContainerId]:
    """Each place to which something happened; after a break all of them, for what was missed."""
    wait_s, is_first = _FIRST_WAIT_S, True
    while True:
        with contextlib.suppress(BackendError, *_HUNG_UP):
            async for container_id in _listen(connection, config, None if is_first else owned):
                wait_s = _FIRST_WAIT_S
                yield container_id
        is_first = False
        await asyncio.sleep(wait_s)
        wait_s = min(2 * wait_s, _LONGEST_WAIT_S)


async def _listen(
    connection: Connection,
    config: DockerConfig,
    missed: Callable[[], Awaitable[Sequence[ContainerId]]] | None,
) -> AsyncIterator[ContainerId]:
    """Until the daemon hangs up."""
    events = connection.client().events
    heard: Any = events.channel.subscribe()
    label = f"{places.INSTALLATION}={config.installation_id}"
    filters = json.dumps({"type": ["container"], "event": _TELLING, "label": [label]})
    listening = asyncio.create_task(asyncio.wait_for(events.run(filters=filters), _LISTEN_S))
    try:
        for container_id in await missed() if missed else ():
            yield container_id
        while (event := await heard.get()) is not None:
            if concerned := _concerned(event, config):
                yield concerned
        await listening
    finally:
        listening.cancel()
        with contextlib.suppress(asyncio.CancelledError, *_HUNG_UP):
            await listening


def _concerned(event: Mapping[str, Any], config: DockerConfig) -> ContainerId | None:
    slot = event.get("Actor", {}).get("Attributes", {}).get(places.SLOT)
    return places.place_id(config.installation_id, slot) if slot else None
