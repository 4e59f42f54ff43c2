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


class Connection:
    """One persistent connection, for one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def to(cls, address: str) -> "Connection":
        parts = urlsplit(address)
        return cls(*await asyncio.open_connection(parts.hostname, parts.port))

    async def request(
        self, method: str, path: str, token: str, body: Mapping[str, object] | None = None
    ) -> tuple[int, bytes]:
        content = b"" if body is None else json.dumps(body).encode()
        lines = [
            f"{method} {path} HTTP/1.1",
            "Host: bench",
            f"Authorization: Bearer {token}",
            "Content-Type: application/json",
            f"Content-Length: {len(content)}",
        ]
        self._writer.write("\r\n".join([*lines, "", ""]).encode() + content)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        return int(head.split()[1]), await self._reader.readexactly(length)

    def close(self) -> None:
        self._writer.close()


class Client:
    """Sends one request at a time on each connection; waiting for a connection counts."""

    def __init__(self, address: str, key: str, connections: int) -> None:
        self._address, self._key, self._count = address, key, connections
        self._free: asyncio.Queue[Connection] = asyncio.Queue()

    @classmethod
    @asynccontextmanager
    async def connected(cls, address: str, key: str, connections: int) -> AsyncIterator["Client"]:
        client = cls(address, key, connections)
        for _ in range(connections):
            client._free.put_nowait(await Connection.to(address))
        try:
            yield client
        finally:
            while not client._free.empty():
                client._free.get_nowait().close()

    async def post(
        self, path: str, body: Mapping[str, object] | None = None, **head: str
    ) -> Answer:
        began = time.perf_counter()
        connection = await self._free.get()
        status, content = await connection.request("POST", path, head.get("token", self._key), body)
        self._free.put_nowait(connection)
        return Answer(status, time.perf_counter() - began, content)
