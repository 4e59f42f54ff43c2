"""A TCP proxy between a client and its server, which a test can stall, cut or make half-open."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

Address = tuple[str, int]
_CHUNK = 65_536
_LINGER_RESET = struct.pack("ii", 1, 0)
"""Makes close() send a reset instead of a FIN."""


class _Link:
    """One proxied connection; while `flows` is not set, its bytes wait."""

    def __init__(self, flows: asyncio.Event, *writers: asyncio.StreamWriter) -> None:
        self.flows = flows
        self.writers = writers

    def reset(self) -> None:
        for writer in self.writers:
            with suppress(OSError):
                connection = writer.get_extra_info("socket")
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_RESET)
            writer.transport.abort()


class TcpProxy:
    """Forwards connections to the address that `target` returns for each of them."""

    def __init__(self, target: Callable[[], Address]) -> None:
        self._target = target
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._new_flow = True
        self._accepts = True
        self.port = 0

    @classmethod
    @asynccontextmanager
    async def running(
        cls, target: Callable[[], Address], *, host: str = "127.0.0.1"
    ) -> AsyncIterator["TcpProxy"]:
        proxy = cls(target)
        proxy._server = await asyncio.start_server(proxy._accept, host, 0)
        proxy.port = proxy._server.sockets[0].getsockname()[1]
        try:
            yield proxy
        finally:
            proxy._server.close()
            proxy.cut()
            for task in proxy._tasks:
                task.cancel()
            await asyncio.gather(*proxy._tasks, return_exceptions=True)

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._links)

    def stall(self) -> None:
        """Forward nothing any more, on old and new connections, until `resume`."""
        self._new_flow = False
        self.lose_connections()

    def lose_connections(self) -> None:
        """Make the open connections half-open: nothing passes, and no side gets an error."""
        for link in self._links:
            link.flows.clear()

    def cut(self) -> None:
        """Reset the open connections."""
        for link in list(self._links):
            link.reset()

    def refuse(self) -> None:
        """Reset the open connections and every new one until `resume`."""
        self._accepts = False
        self.cut()

    def resume(self) -> None:
        """Forward again, also the bytes that waited during a stall."""
        self._accepts = self._new_flow = True
        for link in self._links:
            link.flows.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        flows = asyncio.Event()
        if self._new_flow:
            flows.set()
        link = _Link(flows, writer)
        if not self._accepts:
            link.reset()
            return
        try:
            onward_reader, onward_writer = await asyncio.open_connection(*self._target())
        except OSError:
            link.reset()
            return
        link.writers = (writer, onward_writer)
        self._links.add(link)
        for source, sink in ((reader, onward_writer), (onward_reader, writer)):
            task = asyncio.create_task(self._pump(link, source, sink))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _pump(
        self, link: _Link, source: asyncio.StreamReader, sink: asyncio.StreamWriter
    ) -> None:
        """Forward one direction; the end of one direction ends the connection."""
        with suppress(OSError):
            while data := await source.read(_CHUNK):
                await link.flows.wait()
                sink.write(data)
                await sink.drain()
            await link.flows.wait()
        for writer in link.writers:
            writer.close()
        self._links.discard(link)
