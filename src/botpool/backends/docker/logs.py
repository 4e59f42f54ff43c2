"""Output of a bot's container, which Docker keeps until the next bot's takes its place."""

import asyncio
from collections.abc import AsyncGenerator

import aiohttp
from aiodocker import DockerError

from botpool.backends.docker import refusals
from botpool.backends.docker.connection import connect
from botpool.backends.docker.places import Container
from botpool.domain.errors import BackendUnavailable

_HEADER_BYTES = 8
"""Before each piece: four for where it was written to, four for its length."""


async def read(
    host: str | None, container: Container, *, tail: int | None, follow: bool
) -> AsyncGenerator[bytes, None]:
    """Piece by piece, with a client of its own, so that followers take no connection from others.

    Not by aiodocker's `log`: that keeps a stream open which is left, and the whole in memory.
    """
    asked: dict[str, bool | str] = {"stdout": True, "stderr": True, "follow": follow}
    asked["tail"] = "all" if tail is None else str(tail)
    path = f"containers/{container.docker_id}/logs"
    try:
        async with (
            connect(host) as docker,
            docker._query(path, params=asked) as response,
            response,
        ):
            while (piece := await _next(response.content)) is not None:
                yield piece
    except DockerError as error:
        if error.status not in (404, 409):
            raise refusals.unavailable(error) from error
    except (aiohttp.ClientError, OSError, asyncio.IncompleteReadError) as error:
        raise BackendUnavailable(f"logs: {error}") from error


async def _next(stream: aiohttp.StreamReader) -> bytes | None:
    """None at the end."""
    try:
        header = await stream.readexactly(_HEADER_BYTES)
    except asyncio.IncompleteReadError as ended:
        if ended.partial:
            raise
        return None
    return await stream.readexactly(int.from_bytes(header[4:], "big"))
