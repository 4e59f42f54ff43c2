"""Leases: a slot that this replica may work on, until the lease ends.

A call to a backend is sent only if its timeout ends before the lease does, by the monotonic clock.
After the lease, another replica may act on the same container.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from botpool.domain.errors import BackendUnavailable, BotpoolError
from botpool.engine.runtime.clock import loop_time

T = TypeVar("T")
_MAX_PAGES = 100


class LeaseTooShort(BotpoolError):
    """The lease leaves no time for another call; the step is repeated under a new lease."""


class Lease:
    """The lease of one slot."""

    def __init__(
        self,
        *,
        taken_at: float,
        lease_s: float,
        call_timeout_s: float,
        monotonic: Callable[[], float] = loop_time,
    ) -> None:
        """`taken_at`: the monotonic time just before the statement that took the lease."""
        self._ends_at = taken_at + lease_s
        self._call_timeout_s = call_timeout_s
        self._monotonic = monotonic

    def renewed(self, *, taken_at: float, lease_s: float) -> None:
        """Extend the lease after a statement renewed it."""
        self._ends_at = taken_at + lease_s

    async def call(self, send: Callable[[float], Awaitable[T]]) -> T:
        """Make one call to a backend; `send` gets the timeout of the call."""
        if self._monotonic() + self._call_timeout_s >= self._ends_at:
            raise LeaseTooShort
        return await timed(send, self._call_timeout_s)


async def timed_pages(send: Callable[[float], Awaitable[T]], timeout_s: float) -> T:
    """Make a call that reads many containers; the timeout applies to each page of the answer.

    The backend enforces it, since only the backend sees the pages. The whole call is limited too,
    so that a backend that never ends does not block its caller forever.
    """
    try:
        async with asyncio.timeout(timeout_s * _MAX_PAGES):
            return await send(timeout_s)
    except TimeoutError as error:
        problem = f"no complete answer within {timeout_s * _MAX_PAGES:g} s"
        raise BackendUnavailable(problem) from error


async def timed(send: Callable[[float], Awaitable[T]], timeout_s: float) -> T:
    """Make a call with a timeout; a timeout is no evidence about the container."""
    try:
        async with asyncio.timeout(timeout_s):
            return await send(timeout_s)
    except TimeoutError as error:
        raise BackendUnavailable(f"no answer within {timeout_s:g} s") from error
