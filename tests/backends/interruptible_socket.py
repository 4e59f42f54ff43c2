"""A proxy socket to a daemon that can refuse connections, hang or truncate responses."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class InterruptibleSocket:
    def __init__(self, path: Path, target: str) -> None:
        self.host = f"unix://{path}"
        self._path = path
        self._target = target
        self._is_cut = False
        self._truncates = False
        self._hangs = 0
        self._writers: set[asyncio.StreamWriter] = set()
        self._ended = asyncio.Event()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self._path)

    @property
    def connections(self) -> int:
        return len(self._writers) // 2

    @contextmanager
    def cut(self) -> Iterator[None]:
        self._is_cut = True
        for writer in self._writers:
            writer.transport.abort()
        yield
        self._is_cut = False

    @contextmanager
    def truncated_responses(self) -> Iterator[None]:
        """Send half of each response, then close the connection."""
        self._truncates = True
        yield
        self._truncates = False

    def hang(self) -> None:
        """Deliver nothing more on the existing connections, without closing them."""
        self._hangs += 1

    async def close(self) -> None:
        assert self._server is not None
        self._server.close()
        while self._writers:
            self._ended.clear()
            for writer in self._writers:
                writer.transport.abort()
            await self._ended.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.transport.abort()
            return
        daemon_reader, daemon_writer = await asyncio.open_unix_connection(self._target)
        ends = {writer, daemon_writer}
        self._writers |= ends
        try:
            await asyncio.gather(
                _forward(reader, daemon_writer), self._return(daemon_reader, writer)
            )
        finally:
            self._writers -= ends
            for end in ends:
                end.close()
            self._ended.set()

    async def _return(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        hangs_before = self._hangs
        with suppress(ConnectionError):
            while data := await source.read(65_536):
                if self._hangs > hangs_before:
                    continue
                if self._truncates:
                    target.write(data[: len(data) // 2])
                    target.close()
                    return
                target.write(data)
                await target.drain()
            target.write_eof()


async def _forward(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await source.read(65_536):
            target.write(data)
            await target.drain()
        target.write_eof()
