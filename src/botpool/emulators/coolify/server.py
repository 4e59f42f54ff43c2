"""The emulator on a real socket, with time that passes by itself."""

import asyncio
import contextlib
import logging
import socket
import struct
from collections.abc import Iterator
from typing import Self

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from botpool.emulators.coolify.asgi import CONNECTION, create_app
from botpool.emulators.coolify.clock import Clock
from botpool.emulators.coolify.world import World

_TICK_S = 0.02
_GRACEFUL_S = 1
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""SO_LINGER of no time at all: closing sends RST instead of FIN."""


class _Protocol(HttpToolsProtocol):
    """Lets the application break its own connection."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["extensions"] = {CONNECTION: {"break": self}}

    def reset(self) -> None:
        connection = self.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.transport.abort()

    def close(self) -> None:
        self.transport.close()


class _Server(uvicorn.Server):
    """A server whose door can be shut and opened again."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are left to whoever runs us."""
        yield

    def shut_door(self) -> None:
        """From now on connections are refused; those that exist stay."""
        for server in self.servers:
            server.close()
        self.servers = []

    async def open_door(self, listener: socket.socket) -> None:
        def protocol() -> _Protocol:
            state = self.lifespan.state
            return _Protocol(config=self.config, server_state=self.server_state, app_state=state)

        loop = asyncio.get_running_loop()
        self.servers = [await loop.create_server(protocol, sock=listener)]


class EmulatorServer:
    """`async with EmulatorServer(world, clock) as server:` and it answers at `server.url`."""

    def __init__(
        self, world: World, clock: Clock, *, host: str = "127.0.0.1", port: int = 0
    ) -> None:
        self._world = world
        self._clock = clock
        self._host = host
        self.port = port
        """0: a free one, known after the start."""
        config = uvicorn.Config(
            create_app(world, clock),
            http=_Protocol,
            ws="none",
            lifespan="off",
            log_config=None,
            log_level=logging.CRITICAL,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_GRACEFUL_S,
        )
        self._server = _Server(config)
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    async def start(self) -> None:
        """Raises OSError when the port cannot be had."""
        listener = self._listener()
        self.port = listener.getsockname()[1]
        serving = asyncio.create_task(self._server.serve(sockets=[listener]))
        while not self._server.started:
            if serving.done():
                serving.result()
            await asyncio.sleep(0)
        self._tasks = [serving, asyncio.create_task(self._tick())]

    async def stop(self) -> None:
        if not self._tasks:
            return
        serving, ticking = self._tasks
        ticking.cancel()
        self._server.should_exit = True
        await asyncio.wait({serving, ticking})
        self._tasks = []
        for task in (serving, ticking):
            if not task.cancelled():
                task.result()

    async def failed(self) -> None:
        """Returns only by raising: when time has stopped because of an error of ours."""
        await asyncio.shield(self._tasks[1])

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()

    async def _tick(self) -> None:
        """Things happen also while nobody asks."""
        while True:
            self._world.advance(self._clock.now())
            self._world.poll()
            if self._world.refuses_connections_for_s:
                await self._refuse()
            await asyncio.sleep(_TICK_S)

    async def _refuse(self) -> None:
        """`/_emulator` is behind the same door: it is reached by connections that stayed open."""
        self._server.shut_door()
        while self._world.refuses_connections_for_s:
            await asyncio.sleep(_TICK_S)
            self._world.advance(self._clock.now())
            self._world.poll()
        await self._server.open_door(self._listener())

    def _listener(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self._host, self.port))
            listener.listen(1024)
            listener.setblocking(False)
        except OSError:
            listener.close()
            raise
        return listener
