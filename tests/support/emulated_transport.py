"""An httpx transport that calls the Coolify emulator in memory.

Connection faults raise the same exceptions as over a socket.
"""

from collections.abc import Awaitable, Callable

import httpx

from botpool.emulators.coolify.api import Api
from botpool.emulators.coolify.clock import EmulatedClock
from botpool.emulators.coolify.emulated_coolify import EmulatedCoolify
from botpool.emulators.coolify.http_messages import Transmission

Sleep = Callable[[float], Awaitable[None]]


async def _no_sleep(seconds: float) -> None:
    """Deliver slow responses at once."""


class EmulatedTransport(httpx.AsyncBaseTransport):
    """Several transports may share one EmulatedCoolify. `sleep` delays slow responses."""

    def __init__(
        self, coolify: EmulatedCoolify, clock: EmulatedClock, *, sleep: Sleep = _no_sleep
    ) -> None:
        self._api = Api(coolify, clock)
        self._sleep = sleep

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        delivery = self._api.handle(request)
        timeout_s = request.extensions.get("timeout", {}).get("read")
        if timeout_s is not None and delivery.delay_s > timeout_s:
            await self._sleep(timeout_s)
            raise httpx.ReadTimeout("The read operation timed out", request=request)
        await self._sleep(delivery.delay_s)
        if delivery.transmission is Transmission.REFUSED:
            raise httpx.ConnectError("All connection attempts failed", request=request)
        if delivery.transmission is Transmission.RESET:
            raise httpx.ReadError("Connection reset by peer", request=request)
        if delivery.transmission is Transmission.TRUNCATED:
            truncated = "peer closed connection without sending complete message body"
            raise httpx.RemoteProtocolError(truncated, request=request)
        return delivery.response
