"""Collects the first calls of bots (`first_call_bot.py`), and lets the bots end."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_WITHIN_S = 300.0


class FirstCalls(asyncio.DatagramProtocol):
    def __init__(self) -> None:
        self._times: dict[int, float] = {}
        self._senders: list[tuple[str, int]] = []
        self.port = 0

    @classmethod
    @asynccontextmanager
    async def collected(cls) -> AsyncIterator["FirstCalls"]:
        loop = asyncio.get_running_loop()
        transport, calls = await loop.create_datagram_endpoint(cls, local_addr=("127.0.0.1", 0))
        calls.port = transport.get_extra_info("sockname")[1]
        calls._transport = transport
        try:
            yield calls
        finally:
            transport.close()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        bot_id, called_at = data.split()
        self._times[int(bot_id)] = float(called_at)
        self._senders.append(addr)

    async def of(self, bots: list[int]) -> list[float]:
        """Wait for the first call of each bot; return their times by the monotonic clock."""
        deadline = time.monotonic() + _WITHIN_S
        while missing := [bot for bot in bots if bot not in self._times]:
            assert time.monotonic() < deadline, f"{len(missing)} bots made no call"
            await asyncio.sleep(0.005)
        return [self._times.pop(bot) for bot in bots]

    def let_bots_end(self) -> None:
        for sender in self._senders:
            self._transport.sendto(b"end", sender)
        self._senders.clear()

    _transport: asyncio.DatagramTransport
