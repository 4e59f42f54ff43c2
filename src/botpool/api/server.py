"""The HTTP server: its signals and the order in which it stops."""

import asyncio
import gc
import signal
import socket
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import uvicorn
from fastapi import FastAPI

from botpool.api.connections import ConnectionLimits, ConnectionTable
from botpool.api.draining import Draining
from botpool.api.file_limit import backlog_of
from botpool.api.http_protocol import protocol_for

_GRACEFUL_S = 5


def _avoid_long_collections() -> None:
    """Exclude the loaded libraries from garbage collection, and collect less often.

    A full collection scans every object of the libraries while all requests wait, and finds next
    to nothing, because requests leave hardly any cycles.
    """
    gc.freeze()
    gc.set_threshold(10_000, *gc.get_threshold()[1:])


class HttpServer:
    """Serves until SIGTERM or SIGINT. A second signal ends the graceful stop."""

    def __init__(
        self,
        app: FastAPI,
        listener: socket.socket,
        *,
        trusted_proxies: Sequence[str] = (),
        limits: ConnectionLimits | None = None,
        drain_s: float = 0.0,
        on_closed: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Prepare the server.

        `drain_s`: how long it answers requests after a signal, and closes connections with its
        responses. `on_closed` is called with the reason when a limit or deadline ends a connection.
        """
        self.connections = ConnectionTable(
            limits, trusted_proxies=trusted_proxies, on_closed=on_closed
        )
        self._drain_s = drain_s
        self._draining = Draining(app) if drain_s else None
        config = uvicorn.Config(
            self._draining or app,
            http=protocol_for(self.connections),
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=bool(trusted_proxies),
            forwarded_allow_ips=list(trusted_proxies),
            timeout_graceful_shutdown=_GRACEFUL_S,
            # uvicorn declares whole seconds, but only passes the number to the event loop's timer.
            timeout_keep_alive=self.connections.limits.keep_alive_s,  # type: ignore[arg-type]
            backlog=backlog_of(self.connections.limits.connections),
            lifespan="off",
        )
        self._listener = listener
        self._server = _Server(config)
        self._stop = asyncio.Event()
        self._stop_now = asyncio.Event()

    async def serve(
        self,
        *,
        on_ready: Callable[[], None] = lambda: None,
        on_drain: Callable[[], None] = lambda: None,
        before_stop: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Serve until a signal. Then drain, run `before_stop`, and stop answering requests."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._request_stop)
        serving = asyncio.create_task(self._server.serve(sockets=[self._listener]))
        started = asyncio.create_task(self._server.ready.wait())
        stop_requested = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({started, serving}, return_when=asyncio.FIRST_COMPLETED)
            on_ready()
            _avoid_long_collections()
            await asyncio.wait({stop_requested, serving}, return_when=asyncio.FIRST_COMPLETED)
            if self._stop.is_set():
                await self._drain(on_drain)
            if before_stop is not None:
                await before_stop()
        finally:
            self._server.should_exit = True
            for waiting in (started, stop_requested):
                waiting.cancel()
            await serving
            # The signal handlers stay, so that no signal interrupts the steps that follow.

    async def _drain(self, on_drain: Callable[[], None]) -> None:
        """Answer requests for a while, until load balancers have noticed. A signal ends it."""
        if self._draining is None:
            return
        on_drain()
        self._draining.begin()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._drain_s):
                await self._stop_now.wait()

    def _request_stop(self) -> None:
        if self._stop.is_set():
            self._server.force_exit = True
            self._stop_now.set()
        self._stop.set()


class _Server(uvicorn.Server):
    """Leaves signals to `HttpServer` and reports when it listens.

    uvicorn has no option for either. Its own signal handler would close connections before
    `before_stop` has run.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.ready = asyncio.Event()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.ready.set()
