"""Serves the emulator on a TCP socket and advances its time while no request arrives."""

import asyncio
import socket
import struct
from typing import Self

import h11
import httpx

from botpool.emulators.coolify.api import Api
from botpool.emulators.coolify.clock import EmulatedClock
from botpool.emulators.coolify.emulated_coolify import EmulatedCoolify
from botpool.emulators.coolify.http_messages import Delivery, Transmission

_TICK_S = 0.02
_READ_BYTES = 1 << 16
_BAD_REQUEST = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
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
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self._ticking: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}"

    async def start(self) -> None:
        """Raises OSError if the port is not available."""
        await self._listen()
        self._ticking = asyncio.create_task(self._tick())

    async def stop(self) -> None:
        if self._ticking is None:
            return
        ticking, self._ticking = self._ticking, None
        self._close_listener()
        tasks = {ticking, *self._connections}
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        if not ticking.cancelled():
            ticking.result()

    async def wait_failed(self) -> None:
        """Wait until an internal error ends the server, and raise this error."""
        assert self._ticking is not None
        await asyncio.shield(self._ticking)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(
            self._serve_connection, self._host, self.port, backlog=1024
        )
        self.port = self._server.sockets[0].getsockname()[1]

    def _close_listener(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _tick(self) -> None:
        """Advance time, and close the listener while Coolify refuses connections."""
        while True:
            self._coolify.advance(self._clock.now())
            if self._coolify.refuses_connections:
                self._close_listener()
            elif self._server is None:
                await self._listen()
            await asyncio.sleep(_TICK_S)

    async def _serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        http = h11.Connection(h11.SERVER)
        try:
            while (request := await _read_request(http, reader, writer)) is not None:
                delivery = self._api.handle(request)
                await asyncio.sleep(delivery.delay_s)
                _write(http, writer, delivery, has_body=request.method != "HEAD")
                await writer.drain()
                if http.our_state is not h11.DONE or http.their_state is not h11.DONE:
                    break
                http.start_next_cycle()
        except (ConnectionError, asyncio.CancelledError):
            pass  # The client or `stop` ended the connection.
        finally:
            writer.close()


async def _read_request(
    http: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> httpx.Request | None:
    """Return the next request, or None at the end of the connection."""
    head: h11.Request | None = None
    body = b""
    while True:
        try:
            event = http.next_event()
            if event is h11.NEED_DATA:
                http.receive_data(await reader.read(_READ_BYTES))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                url = f"http://emulator{head.target.decode('latin-1')}"
                return httpx.Request(
                    head.method.decode(), url, headers=[*head.headers], content=body
                )
            else:
                return None
        except (h11.RemoteProtocolError, httpx.InvalidURL):
            writer.write(_BAD_REQUEST)
            return None


def _write(
    http: h11.Connection, writer: asyncio.StreamWriter, delivery: Delivery, *, has_body: bool
) -> None:
    if delivery.transmission in (Transmission.RESET, Transmission.REFUSED):
        connection = writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        writer.transport.abort()
        return
    response, body = delivery.response, delivery.response.content
    head = h11.Response(status_code=response.status_code, headers=response.headers.raw)
    writer.write(http.send(head))
    if has_body and delivery.transmission is Transmission.TRUNCATED:
        writer.write(http.send(h11.Data(data=body[: len(body) // 2])))
        return
    if has_body:
        writer.write(http.send(h11.Data(data=body)))
    writer.write(http.send(h11.EndOfMessage()))
