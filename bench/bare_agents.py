"""Answers agents that run without Botpool: the token of a container is the id of its bot."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from bench.first_calls import FirstCalls

_BOT_NUMBERS = itertools.count(10**9)


class BareAgents:
    """Creates the environment of bots outside of Botpool."""

    def __init__(self, port: int, calls: FirstCalls) -> None:
        self._port, self.calls = port, calls

    @classmethod
    @asynccontextmanager
    async def answered(cls, calls: FirstCalls) -> AsyncIterator["BareAgents"]:
        server = await asyncio.start_server(_answer, "127.0.0.1", 0, backlog=512)
        async with server:
            yield cls(server.sockets[0].getsockname()[1], calls)

    def new_bots(self, count: int) -> dict[int, Mapping[str, str]]:
        """Return the environment of each of that many new bots."""
        bots = [next(_BOT_NUMBERS) for _ in range(count)]
        return {
            bot: {
                "BOTPOOL_URL": f"http://127.0.0.1:{self._port}",
                "BOTPOOL_TOKEN": str(bot),
                "BOTPOOL_CONTAINER_ID": str(bot),
                "BENCH_PORT": str(self.calls.port),
            }
            for bot in bots
        }


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    bot = head.partition("Bearer ")[2].split("\r\n")[0]
    body = json.dumps({"bot": {"id": int(bot)}}).encode()
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
    writer.close()
