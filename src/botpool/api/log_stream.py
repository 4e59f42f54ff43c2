"""The output of a container as the parts of a response, for as long as its reader may read it."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

from botpool.domain.errors import BackendError, DatabaseUnavailable

_FIRST_PART_TIMEOUT_S = 1.0
_CHECK_INTERVAL_S = 5.0


async def log_stream(
    lines: AsyncIterator[bytes], is_authorized: Callable[[], Awaitable[bool]]
) -> AsyncIterator[bytes]:
    """Wait shortly for the first part of the output, then return an iterator over all parts.

    A backend failure before the first part is raised, so that the response can be an error. A later
    failure becomes the last line of the output.
    """
    first = asyncio.ensure_future(anext(lines, None))
    await asyncio.wait({first}, timeout=_FIRST_PART_TIMEOUT_S)
    if first.done():
        first.result()
    return _authorized_parts(first, lines, is_authorized)


async def _authorized_parts(
    part: asyncio.Future[bytes | None],
    rest: AsyncIterator[bytes],
    is_authorized: Callable[[], Awaitable[bool]],
) -> AsyncIterator[bytes]:
    """Yield the parts, and check every few seconds that the reader is still authorized."""
    check_at = time.monotonic() + _CHECK_INTERVAL_S
    try:
        while True:
            await asyncio.wait({part}, timeout=max(0.0, check_at - time.monotonic()))
            if time.monotonic() >= check_at:
                if not await is_authorized():
                    yield b"[The output ends here: the key is no longer valid.]\n"
                    return
                check_at = time.monotonic() + _CHECK_INTERVAL_S
            if part.done():
                if (content := part.result()) is None:
                    return
                yield content
                part = asyncio.ensure_future(anext(rest, None))
    except BackendError as error:
        yield f"[The backend failed while the output was read: {error}]\n".encode()
    except DatabaseUnavailable:
        yield b"[The output ends here: the database is not available.]\n"
    finally:
        part.cancel()
        with suppress(asyncio.CancelledError, BackendError):
            await part
