"""A minimal HTTP/1.1 client with persistent connections that times each response."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    seconds: float
    body: bytes


class Client:
    """Sends one request at a time on each connection; waiting for a connection counts."""

    def __init__(self, address: str, key: str, connections: int) -> None:
        self._host, self._port = urlsplit(address).hostname, urlsplit(address).port
        self._key = key
        self._count = connections
        self._free: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = (
            asyncio.Queue()
        )

    @classmethod
    @asynccontextmanager
    async def connected(cls, address: str, key: str, connections: int) -> AsyncIterator["Client"]:
        client = cls(address, key, connections)
        for _ in range(connections):
            client._free.put_nowait(await asyncio.open_connection(client._host, client._port))
        try:
            yield client
        finally:
            while not client._free.empty():
                client._free.get_nowait()[1].close()

    async def post(
        self, path: str, body: Mapping[str, object] | None = None, **head: str
    ) -> Answer:
        began = time.perf_counter()
        reader, writer = await self._free.get()
        content = b"" if body is None else json.dumps(body).encode()
        lines = [
            f"POST {path} HTTP/1.1",
            "Host: bench",
            f"Authorization: Bearer {head.get('token', self._key)}",
            "Content-Type: application/json",
            f"Content-Length: {len(content)}",
        ]
        writer.write("\r\n".join([*lines, "", ""]).encode() + content)
        answer_head = await reader.readuntil(b"\r\n\r\n")
        length = int(answer_head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        answer = await reader.readexactly(length)
        self._free.put_nowait((reader, writer))
        return Answer(int(answer_head.split()[1]), time.perf_counter() - began, answer)
