"""The HTTP server: its signals, and the order in which it stops."""

import asyncio
import contextlib
import gc
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from botpool.api.heads import HttpProtocol

_GRACEFUL_S = 5
_KEEP_ALIVE_S = 75
"""Longer than clients keep a connection that is idle, or their next request meets its end."""


def _forgo_long_collections() -> None:
    """Let the garbage collector no longer look at what was loaded to stay, and look seldom.

    A full collection goes through every object of the libraries, some hundred thousand, and all
    requests stand still for 60 ms. It finds next to nothing: requests leave hardly any cycles.
    """
    gc.freeze()
    gc.set_threshold(10_000, *gc.get_threshold()[1:])


async def _nothing() -> None:
    return None


class HttpServer:
    """Serves until SIGTERM or SIGINT. A second signal does not wait any longer."""

    def __init__(
        self, app: FastAPI, listener: socket.socket, *, trusted_proxies: Sequence[str] = ()
    ) -> None:
        config = uvicorn.Config(
            app,
            http=HttpProtocol,
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(trusted_proxies),
            forwarded_allow_ips=list(trusted_proxies),
            timeout_graceful_shutdown=_GRACEFUL_S,
            timeout_keep_alive=_KEEP_ALIVE_S,
            lifespan="off",
        )
        self._listener = listener
        self._server = _Server(config)
        self._stop = asyncio.Event()

    async def serve(
        self,
        *,
        on_ready: Callable[[], None] = lambda: None,
        before_stop: Callable[[], Awaitable[None]] = _nothing,
    ) -> None:
        """`before_stop` runs when the end was asked for, while requests are still answered."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop_asked)
        serving = asyncio.create_task(self._server.serve(sockets=[self._listener]))
        started = asyncio.create_task(self._server.ready.wait())
        asked = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({started, serving}, return_when=asyncio.FIRST_COMPLETED)
            on_ready()
            _forgo_long_collections()
            await asyncio.wait({asked, serving}, return_when=asyncio.FIRST_COMPLETED)
            await before_stop()
        finally:
            self._server.leave()
            for waiting in (started, asked):
                waiting.cancel()
            await serving
            # The handlers stay: what follows is an orderly end that no signal should break off.

    def _stop_asked(self) -> None:
        self._server.force_exit = self._stop.is_set()
        self._stop.set()


class _Server(uvicorn.Server):
    """Leaves signals to us: the order in which things stop matters."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()
        self._leaving = asyncio.Event()

    def leave(self) -> None:
        self.should_exit = True
        self._leaving.set()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()

    async def main_loop(self) -> None:
        """Tick once a second, for the Date header. uvicorn's own wakes ten times as often."""
        while not await self.on_tick(0):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._leaving.wait()
