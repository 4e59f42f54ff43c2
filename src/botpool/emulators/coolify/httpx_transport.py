"""An httpx transport that calls the emulator in memory.

Connection faults raise the same exceptions as over a socket.
"""

from collections.abc import Awaitable, Callable
from urllib.parse import parse_qsl

import httpx

from botpool.emulators.coolify.api import Api
from botpool.emulators.coolify.clock import Clock
from botpool.emulators.coolify.emulated_coolify import EmulatedCoolify
from botpool.emulators.coolify.http_messages import Delivery, Request, Transmission

Sleep = Callable[[float], Awaitable[None]]


async def _no_sleep(seconds: float) -> None:
    """Deliver slow responses at once."""


class EmulatedTransport(httpx.AsyncBaseTransport):
    """Several transports may share one EmulatedCoolify. `sleep` delays slow responses."""

    def __init__(self, coolify: EmulatedCoolify, clock: Clock, *, sleep: Sleep = _no_sleep) -> None:
        self._api = Api(coolify, clock)
        self._sleep = sleep

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        delivery = self._api.handle(
            Request(
                method=request.method,
                path=request.url.path,
                query=dict(parse_qsl(request.url.query.decode(), keep_blank_values=True)),
                headers={name.lower(): value for name, value in request.headers.items()},
                body=await request.aread(),
            )
        )
        await self._wait(request, delivery)
        if delivery.transmission is Transmission.REFUSED:
            raise httpx.ConnectError("All connection attempts failed", request=request)
        if delivery.transmission is Transmission.RESET:
            raise httpx.ReadError("Connection reset by peer", request=request)
        if delivery.transmission is Transmission.TRUNCATED:
            truncated = "peer closed connection without sending complete message body"
            raise httpx.RemoteProtocolError(truncated, request=request)
        response = delivery.response
        return httpx.Response(
            response.status,
            headers={**response.headers, "Content-Type": response.media_type},
            content=response.body,
            request=request,
        )

    async def _wait(self, request: httpx.Request, delivery: Delivery) -> None:
        limit = request.extensions.get("timeout", {}).get("read")
        if limit is not None and delivery.delay_s > limit:
            await self._sleep(limit)
            raise httpx.ReadTimeout("The read operation timed out", request=request)
        if delivery.delay_s:
            await self._sleep(delivery.delay_s)
