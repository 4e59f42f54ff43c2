"""The probe of the own HTTP server: which floods keep agents out."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from botpool.api.connections import ConnectionTable
from botpool.api.listener_probe import ListenerProbe


@asynccontextmanager
async def listener(*, patience_s: float | None) -> AsyncIterator[socket.socket]:
    """A server that closes connections whose requests do not arrive in that time."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(patience_s):
                await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        except TimeoutError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0]


async def test_server_that_answers() -> None:
    async with listener(patience_s=None) as listening:
        assert await ListenerProbe(listening, ConnectionTable()).answers(60.0)


async def test_closed_server_does_not_answer() -> None:
    async with listener(patience_s=None) as listening:
        probe = ListenerProbe(listening, ConnectionTable())
    assert not await probe.answers(60.0)


async def test_one_turned_away_connection_per_check_hides_no_silence() -> None:
    connections = ConnectionTable()
    async with listener(patience_s=None) as listening:
        probe = ListenerProbe(listening, connections)
        for _ in range(3):
            connections.turned_away += 1
            assert await probe.answers(60.0)


async def test_flood_that_turns_distant_clients_away_keeps_agents_out() -> None:
    connections = ConnectionTable()
    async with listener(patience_s=0.05) as listening:
        probe = ListenerProbe(listening, connections)
        connections.turned_away += 1
        assert not await probe.answers(60.0)
