"""Checks that this server accepts connections and answers: it calls itself over TCP."""

import asyncio
import socket

from botpool.api.connections import ConnectionTable

_REQUEST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_ANSWER = b"HTTP/1.1 200 "
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound


class ListenerProbe:
    """Tells whether agents could reach this server since the last check."""

    def __init__(self, listener: socket.socket, connections: ConnectionTable) -> None:
        host, port = listener.getsockname()[:2]
        self._address = (_WILDCARDS.get(host, host), port)
        self._connections = connections
        self._turned_away = 0

    async def answers(self, timeout_s: float) -> bool:
        """Whether the server answers, and has turned no connection away since the last check."""
        before, self._turned_away = self._turned_away, self._connections.turned_away
        if self._turned_away > before:
            return False
        try:
            async with asyncio.timeout(timeout_s):
                return await self._call()
        except (OSError, TimeoutError):
            return False

    async def _call(self) -> bool:
        reader, writer = await asyncio.open_connection(*self._address)
        try:
            writer.write(_REQUEST)
            return (await reader.read(len(_ANSWER))).startswith(_ANSWER)
        finally:
            writer.close()
