"""Clients that hold connections: each sends nothing or a part of a request, and then waits.

A client whose connection the server closed opens another one after a pause. `attacked` runs the
clients in a process of their own, so that they do not delay the requests of the test.
"""

import asyncio
import resource
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self

HALF_HEAD = b"POST /v1/bots HTTP/1.1\r\nHost: botpool.test\r\nX-Half: "
HALF_BODY = (
    b"POST /v1/bots HTTP/1.1\r\nHost: botpool.test\r\nContent-Type: application/json\r\n"
    b'Content-Length: 100\r\n\r\n{"meetingUrl": '
)
_OPENING_AT_ONCE = 200
_OTHER_FILES = 500


class HeldConnections:
    """Holds connections to one port of this machine until the block ends."""

    def __init__(self, port: int, *, pause_s: float = 2.0) -> None:
        """`pause_s`: how long a client waits before it connects again."""
        self.opened = 0
        self.closed = 0
        self._port = port
        self._pause_s = pause_s
        self._opening = asyncio.Semaphore(_OPENING_AT_ONCE)
        self._clients: set[asyncio.Task[None]] = set()

    @property
    def held(self) -> int:
        return self.opened - self.closed

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for client in self._clients:
            client.cancel()
        await asyncio.gather(*self._clients, return_exceptions=True)

    async def hold(self, count: int, sent: bytes = b"") -> None:
        """Open connections that send these bytes; return when each was opened once."""
        _allow_files(count + len(self._clients) + _OTHER_FILES)
        connected = [asyncio.Event() for _ in range(count)]
        self._clients.update(asyncio.create_task(self._hold(sent, each)) for each in connected)
        for each in connected:
            await each.wait()

    async def _hold(self, sent: bytes, connected: asyncio.Event) -> None:
        while True:
            try:
                async with self._opening:
                    reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            except OSError:
                await asyncio.sleep(self._pause_s)
                continue
            self.opened += 1
            try:
                writer.write(sent)
                connected.set()
                await _read_to_the_end(reader)
            finally:
                self.closed += 1
                writer.close()
            await asyncio.sleep(self._pause_s)


async def _read_to_the_end(reader: asyncio.StreamReader) -> None:
    try:
        while await reader.read(65_536):
            pass
    except OSError:
        pass


def _allow_files(wanted: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))


@asynccontextmanager
async def attacked(port: int, *, idle: int, half: int) -> AsyncIterator[list[str]]:
    """Hold idle connections and half requests from another process until the block ends.

    The list has, after the block, a line with the numbers of connections.
    """
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", __name__, str(port), str(idle), str(half)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    lines: list[str] = []
    try:
        assert await process.stdout.readline() == b"held\n"
        yield lines
    finally:
        # The end of its standard input, which asyncio closes after some input, ends the process.
        lines += (await process.communicate(b""))[0].decode().splitlines()


async def _attack(port: int, idle: int, half: int) -> None:
    async with HeldConnections(port) as attack:
        await attack.hold(idle)
        await attack.hold(half // 2, HALF_HEAD)
        await attack.hold(half // 2, HALF_BODY)
        sys.stdout.write("held\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)
        sys.stdout.write(f"{attack.held} connections held at the end, {attack.opened} opened\n")


if __name__ == "__main__":
    asyncio.run(_attack(*map(int, sys.argv[1:])))
