"""Checks that this server accepts connections and answers: it calls itself over TCP."""

import asyncio
import socket

from botpool.api.connections import ConnectionTable

_REQUEST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
_ANSWER = b"HTTP/1.1 200 "
_CLIENT_DELAY_S = 0.5
"""How long a distant client may take between the accept and its request."""
_SLOW_CALLS = 3
_WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared, not bound


class ListenerProbe:
    """Tells whether agents could reach this server since the last check."""

    def __init__(self, listener: socket.socket, connections: ConnectionTable) -> None:
        host, port = listener.getsockname()[:2]
        self._address = (_WILDCARDS.get(host, host), port)
        self._connections = connections
        self._turned_away = 0

    async def answers(self, timeout_s: float) -> bool:
        """Whether the server answers, also distant clients if it turned connections away.

        A connection that was turned away proves nothing about others: one per check must not hide
        the silence of agents. Calls that take as long as a distant client's show what a flood does.
        """
        before, self._turned_away = self._turned_away, self._connections.turned_away
        calls = [self._call()]
        if self._turned_away > before:
            delay_s = min(_CLIENT_DELAY_S, timeout_s / 2)
            calls += [self._call(delay_s) for _ in range(_SLOW_CALLS)]
        try:
            async with asyncio.timeout(timeout_s):
                return all(await asyncio.gather(*calls))
        except (OSError, TimeoutError):
            return False

    async def _call(self, delay_s: float = 0.0) -> bool:
        reader, writer = await asyncio.open_connection(*self._address)
        try:
            await asyncio.sleep(delay_s)
            writer.write(_REQUEST)
            return (await reader.read(len(_ANSWER))).startswith(_ANSWER)
        finally:
            writer.close()
