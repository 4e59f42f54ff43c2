"""Streams a container's output from a backend that may fail at any line."""

import asyncio
from collections.abc import AsyncIterator

from botpool.domain.errors import BackendError

_FIRST_PART_TIMEOUT_S = 1.0


async def start_log_stream(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Wait shortly for the first part, then return an iterator over all parts.

    A backend failure before the first part is raised, so that the response can be an error. A later
    failure becomes the last line of the output.
    """
    first = asyncio.ensure_future(anext(lines, b""))
    await asyncio.wait({first}, timeout=_FIRST_PART_TIMEOUT_S)
    if first.done():
        first.result()
    return _parts(first, lines)


async def _parts(first: asyncio.Future[bytes], rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    try:
        yield await first
        async for part in rest:
            yield part
    except BackendError as error:
        yield f"[The backend failed while the output was read: {error}]\n".encode()
