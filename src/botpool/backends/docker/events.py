"""Converts the daemon's events to hints. Observation covers the events that are lost."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import aiohttp
from aiodocker import DockerError

from botpool.backends.docker.config import DockerConfig
from botpool.backends.docker.connection import Connection
from botpool.backends.docker.slot_containers import (
    INSTALLATION_LABEL,
    SLOT_LABEL,
    container_id_of,
)
from botpool.domain.errors import BackendError
from botpool.domain.ids import ContainerId

_EVENTS = ["die", "destroy"]
"""Starts are left out: the agent's first call reports them."""
_CONNECTION_ERRORS = (DockerError, aiohttp.ClientError, OSError)
_FIRST_WAIT_S, _MAX_WAIT_S = 0.2, 5.0
_SUBSCRIPTION_S = 600.0
"""Subscribe again after this time, in case the connection died silently."""


async def hints(
    connection: Connection,
    config: DockerConfig,
    owned: Callable[[], Awaitable[Sequence[ContainerId]]],
) -> AsyncIterator[ContainerId]:
    """Yield the slots with events; after a lost connection, yield all slots."""
    wait_s, is_first = _FIRST_WAIT_S, True
    while True:
        with contextlib.suppress(BackendError, *_CONNECTION_ERRORS):
            async for container_id in _listen(connection, config, None if is_first else owned):
                wait_s = _FIRST_WAIT_S
                yield container_id
        is_first = False
        await asyncio.sleep(wait_s)
        wait_s = min(2 * wait_s, _MAX_WAIT_S)


async def _listen(
    connection: Connection,
    config: DockerConfig,
    missed: Callable[[], Awaitable[Sequence[ContainerId]]] | None,
) -> AsyncIterator[ContainerId]:
    """Yield until the daemon closes the connection."""
    events = connection.client().events
    subscription: Any = events.channel.subscribe()
    label = f"{INSTALLATION_LABEL}={config.installation_id}"
    filters = json.dumps({"type": ["container"], "event": _EVENTS, "label": [label]})
    listening = asyncio.create_task(asyncio.wait_for(events.run(filters=filters), _SUBSCRIPTION_S))
    try:
        for container_id in await missed() if missed else ():
            yield container_id
        while (event := await subscription.get()) is not None:
            if changed := _container_id(event, config):
                yield changed
        await listening
    finally:
        listening.cancel()
        with contextlib.suppress(asyncio.CancelledError, *_CONNECTION_ERRORS):
            await listening


def _container_id(event: Mapping[str, Any], config: DockerConfig) -> ContainerId | None:
    slot = event.get("Actor", {}).get("Attributes", {}).get(SLOT_LABEL)
    return container_id_of(config.installation_id, slot) if slot else None
