"""Output that is read while it is sent, from a platform that may fail at any line of it."""

import asyncio
from collections.abc import AsyncIterator

from botpool.domain.errors import BackendError

_FIRST_S = 1.0


async def begun(lines: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The same, once its first part is there, or for a quiet container after a moment.

    What fails before is raised, and can be answered as a problem; afterwards it can only be said.
    """
    first = asyncio.ensure_future(anext(lines, b""))
    await asyncio.wait({first}, timeout=_FIRST_S)
    if first.done():
        first.result()
    return _all(first, lines)


async def _all(first: asyncio.Future[bytes], rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    try:
        yield await first
        async for part in rest:
            yield part
    except BackendError as error:
        yield f"[no more of it can be read: {error}]\n".encode()
