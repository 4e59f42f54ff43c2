"""The emulator for an httpx client in memory: no sockets, no waiting, the same faults.

What a broken connection does to a client over a socket is raised here as the same exception.
"""

from collections.abc import Awaitable, Callable
from urllib.parse import parse_qsl

import httpx

from botpool.emulators.coolify.api import Api
from botpool.emulators.coolify.clock import Clock
from botpool.emulators.coolify.http import Reply, Request, Wire
from botpool.emulators.coolify.world import World

Sleep = Callable[[float], Awaitable[None]]


async def _at_once(seconds: float) -> None:
    """Slow answers take no time, unless the client would not have waited for them."""


class EmulatedTransport(httpx.AsyncBaseTransport):
    """Many of them may share one world. `sleep` is called with the seconds of slow answers."""

    def __init__(self, world: World, clock: Clock, *, sleep: Sleep = _at_once) -> None:
        self._api = Api(world, clock)
        self._sleep = sleep

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        reply = self._api.reply(
            Request(
                method=request.method,
                path=request.url.path,
                query=dict(parse_qsl(request.url.query.decode(), keep_blank_values=True)),
                headers={name.lower(): value for name, value in request.headers.items()},
                body=await request.aread(),
            )
        )
        await self._wait(request, reply)
        if reply.wire is Wire.REFUSED:
            raise httpx.ConnectError("All connection attempts failed", request=request)
        if reply.wire is Wire.RESET:
            raise httpx.ReadError("Connection reset by peer", request=request)
        if reply.wire is Wire.HALF:
            half = "peer closed connection without sending complete message body"
            raise httpx.RemoteProtocolError(half, request=request)
        answer = reply.answer
        return httpx.Response(
            answer.status,
            headers={**answer.headers, "Content-Type": answer.media_type},
            content=answer.body,
            request=request,
        )

    async def _wait(self, request: httpx.Request, reply: Reply) -> None:
        limit = request.extensions.get("timeout", {}).get("read")
        if limit is not None and reply.delay_s > limit:
            await self._sleep(limit)
            raise httpx.ReadTimeout("The read operation timed out", request=request)
        if reply.delay_s:
            await self._sleep(reply.delay_s)
