"""A slot that is ours for a while, and the calls that we may make meanwhile.

No call is sent unless its timeout ends before the lease does, by the monotonic clock: after that
another replica may act, and two calls about one container could cross.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from botpool.domain.errors import BackendUnavailable, BotpoolError
from botpool.engine.runtime.clock import loop_time

T = TypeVar("T")


class LeaseTooShort(BotpoolError):
    """There is no time left for another call. The step is made again under a new lease."""


class Lease:
    def __init__(
        self,
        *,
        taken_at: float,
        lease_s: float,
        call_timeout_s: float,
        monotonic: Callable[[], float] = loop_time,
    ) -> None:
        """`taken_at`: the monotonic clock just before the lease was asked for."""
        self._ends_at = taken_at + lease_s
        self._call_timeout_s = call_timeout_s
        self._monotonic = monotonic

    def renewed(self, *, taken_at: float, lease_s: float) -> None:
        self._ends_at = taken_at + lease_s

    async def call(self, send: Callable[[float], Awaitable[T]]) -> T:
        """Make one call to a backend: `send` gets the timeout it must keep."""
        if self._monotonic() + self._call_timeout_s >= self._ends_at:
            raise LeaseTooShort
        return await timed(send, self._call_timeout_s)


async def timed(send: Callable[[float], Awaitable[T]], timeout_s: float) -> T:
    """A call that ends in time, whatever the backend does. Too late is no evidence."""
    try:
        async with asyncio.timeout(timeout_s):
            return await send(timeout_s)
    except TimeoutError as error:
        raise BackendUnavailable(f"no answer within {timeout_s:g} s") from error
