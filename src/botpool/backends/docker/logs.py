"""Reads the output of a bot's container, which Docker keeps until the next bot starts."""

import asyncio
from collections.abc import AsyncGenerator

import aiohttp
from aiodocker import DockerError

from botpool.backends.docker import error_messages
from botpool.backends.docker.connection import connect
from botpool.backends.docker.slot_containers import Container
from botpool.domain.errors import BackendUnavailable

_HEADER_BYTES = 8
"""Docker sends a header before each chunk: 4 bytes for the stream, 4 for the length."""


async def stream(
    host: str | None, container: Container, *, tail: int | None, follow: bool
) -> AsyncGenerator[bytes, None]:
    """Yield the output in chunks. Each reader has its own client and connection.

    aiodocker's `log` does not close an abandoned stream and keeps the whole output in memory.
    """
    params = {"stdout": "1", "stderr": "1", "follow": str(int(follow))}
    params["tail"] = "all" if tail is None else str(tail)
    try:
        async with connect(host) as docker:
            url = f"{docker.docker_host}/containers/{container.docker_id}/logs"
            async with docker.session.get(url, params=params) as response:
                if response.status in (404, 409):
                    return
                if response.status != 200:
                    failure = DockerError(response.status, await response.text())
                    raise error_messages.request_failed(failure)
                while (chunk := await _next_chunk(response.content)) is not None:
                    yield chunk
    except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError) as error:
        raise BackendUnavailable(f"logs: {error}") from error


async def _next_chunk(stream: aiohttp.StreamReader) -> bytes | None:
    """Return None at the end of the stream."""
    try:
        header = await stream.readexactly(_HEADER_BYTES)
    except asyncio.IncompleteReadError as error:
        if error.partial:
            raise
        return None
    return await stream.readexactly(int.from_bytes(header[4:], "big"))
