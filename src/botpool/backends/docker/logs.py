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


async def read(
    host: str | None, container: Container, *, tail: int | None, follow: bool
) -> AsyncGenerator[bytes, None]:
    """Yield the output in chunks. Each reader has its own client and connection.

    aiodocker's `log` does not close an abandoned stream and keeps the whole output in memory.
    """
    params: dict[str, bool | str] = {"stdout": True, "stderr": True, "follow": follow}
    params["tail"] = "all" if tail is None else str(tail)
    path = f"containers/{container.docker_id}/logs"
    try:
        async with (
            connect(host) as docker,
            docker._query(path, params=params) as response,
            response,
        ):
            while (chunk := await _next_chunk(response.content)) is not None:
                yield chunk
    except DockerError as error:
        if error.status not in (404, 409):
            raise error_messages.request_failed(error) from error
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
