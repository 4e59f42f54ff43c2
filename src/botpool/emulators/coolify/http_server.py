"""Serves the emulator on a TCP socket and advances its time while no request arrives."""

import asyncio
import socket
import struct
from typing import Self

import httpx
from aiohttp import web

from botpool.emulators.coolify.api import Api
from botpool.emulators.coolify.clock import EmulatedClock
from botpool.emulators.coolify.emulated_coolify import EmulatedCoolify
from botpool.emulators.coolify.http_messages import Transmission

_TICK_S = 0.02
_SHUTDOWN_S = 0.1
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER with a timeout of 0: closing the socket sends RST instead of FIN."""


class EmulatorServer:
    """`async with EmulatorServer(coolify, clock) as server:` serves at `server.url`."""

    def __init__(
        self,
        coolify: EmulatedCoolify,
        clock: EmulatedClock,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
    ) -> None:
        self._coolify = coolify
        self._clock = clock
        self._api = Api(coolify, clock)
        self._host = host
        self.port = port
        """0 takes a free port, which is known after the start."""
        self._runner: web.ServerRunner | None = None
        self._listener: web.TCPSite | None = None
        self._ticking: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    async def start(self) -> None:
        """Raises OSError if the port is not available."""
        self._runner = web.ServerRunner(web.Server(self._respond), shutdown_timeout=_SHUTDOWN_S)
        await self._runner.setup()
        await self._listen(self._runner)
        self._ticking = asyncio.create_task(self._tick(self._runner))

    async def stop(self) -> None:
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.wait({self._ticking})
        if self._runner is not None:
            await self._runner.cleanup()
        if self._ticking is not None and not self._ticking.cancelled():
            self._ticking.result()

    async def wait_failed(self) -> None:
        """Wait until an internal error ends the server, and raise this error."""
        assert self._ticking is not None
        await asyncio.shield(self._ticking)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()

    async def _listen(self, runner: web.ServerRunner) -> None:
        listener = web.TCPSite(runner, self._host, self.port, backlog=1024)
        await listener.start()
        self._listener = listener
        self.port = runner.addresses[0][1]

    async def _tick(self, runner: web.ServerRunner) -> None:
        """Advance time, and close the listener while Coolify refuses connections."""
        while True:
            self._coolify.advance(self._clock.now())
            if self._coolify.refuses_connections and self._listener is not None:
                await self._listener.stop()
                self._listener = None
            elif not self._coolify.refuses_connections and self._listener is None:
                await self._listen(runner)
            await asyncio.sleep(_TICK_S)

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            url = httpx.URL(f"http://emulator{request.raw_path}")
        except httpx.InvalidURL as error:
            raise web.HTTPBadRequest from error
        headers, body = [*request.headers.items()], await request.read()
        delivery = self._api.handle(
            httpx.Request(request.method, url, headers=headers, content=body)
        )
        await asyncio.sleep(delivery.delay_s)
        answer, connection = delivery.response, request.transport
        if connection is None:
            raise ConnectionResetError("The client closed the connection.")
        if delivery.transmission in (Transmission.RESET, Transmission.REFUSED):
            linger = (socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            connection.get_extra_info("socket").setsockopt(*linger)
            connection.abort()
        if delivery.transmission is Transmission.TRUNCATED:
            half = web.StreamResponse(status=answer.status_code, headers=answer.headers)
            await half.prepare(request)
            await half.write(answer.content[: len(answer.content) // 2])
            connection.close()
            return half
        return web.Response(status=answer.status_code, headers=answer.headers, body=answer.content)
