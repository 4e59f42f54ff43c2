"""Reads the output of a run from its Pod, which exists until the slot is released."""

import asyncio
from collections.abc import AsyncGenerator

import httpx

from botpool.backends.kubernetes.connection import Call, Connection
from botpool.backends.kubernetes.pod_template import CONTAINER
from botpool.domain.errors import BackendUnavailable

_NOT_KEPT = b"unable to retrieve container logs for "
"""The kubelet sends this text, with status 200, when it has removed the container."""
_START_POLL_S = 1.0


async def stream(
    connection: Connection, name: str, *, tail: int | None, follow: bool
) -> AsyncGenerator[bytes, None]:
    """Yield the output; nothing if the Pod is gone. A followed run may not have started yet."""
    query = {"container": CONTAINER, "follow": "true" if follow else "false"}
    if tail is not None:
        query["tailLines"] = str(tail)
    call = Call(method="GET", path=f"{connection.pods_path}/{name}/log", query=query)
    while True:
        async with connection.stream(call, silence_s=None if follow else 30.0) as received:
            if received.status_code == 200:
                async for chunk in _chunks(received):
                    yield chunk
                return
            is_starting = received.status_code == 400 and b"waiting to start" in received.content
            if not follow or not is_starting:
                return
        await asyncio.sleep(_START_POLL_S)


async def _chunks(received: httpx.Response) -> AsyncGenerator[bytes, None]:
    is_first = True
    try:
        async for chunk in received.aiter_bytes():
            if is_first and chunk.startswith(_NOT_KEPT):
                return
            is_first = False
            yield chunk
    except httpx.HTTPError as error:
        raise BackendUnavailable(f"logs: {type(error).__name__} {error}") from error
