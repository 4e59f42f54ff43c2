"""A line to a daemon that can be cut, go dead, or break off in the middle of an answer."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


class Line:
    """A socket that leads to the daemon's."""

    def __init__(self, path: Path, target: str) -> None:
        self.host = f"unix://{path}"
        self._path = path
        self._target = target
        self._is_cut = False
        self._breaks_off = False
        self._deafened = 0
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
    def broken_off(self) -> Iterator[None]:
        """Half of an answer comes back, and then its connection ends."""
        self._breaks_off = True
        yield
        self._breaks_off = False

    def deafen(self) -> None:
        """On the connections that there are now nothing comes back any more, and none ends."""
        self._deafened += 1

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
        there_reader, there = await asyncio.open_unix_connection(self._target)
        ends = {writer, there}
        self._writers |= ends
        try:
            await asyncio.gather(_pass_on(reader, there), self._answer(there_reader, writer))
        finally:
            self._writers -= ends
            for end in ends:
                end.close()
            self._ended.set()

    async def _answer(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        born = self._deafened
        with suppress(ConnectionError):
            while data := await source.read(65_536):
                if self._deafened > born:
                    continue
                if self._breaks_off:
                    target.write(data[: len(data) // 2])
                    target.close()
                    return
                target.write(data)
                await target.drain()
            target.write_eof()


async def _pass_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await source.read(65_536):
            target.write(data)
            await target.drain()
        target.write_eof()
