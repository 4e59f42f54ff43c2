"""A reader for one HTTP/1.1 response.

The standard library's HTTP clients block a thread per call, and a blocked thread cannot be
cancelled: a bot asked to stop would first wait for an unreachable control plane. Every connection
carries one request, so reading one response is all the HTTP that the agent needs.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

BODY_LIMIT = 4 * 1024 * 1024
"""Far above the largest response (botData of 64 KiB); protects the bot's memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def is_json(self) -> bool:
        media_type = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        return media_type == "application/json" or media_type.endswith("+json")

    def json_object(self) -> dict[str, Any] | None:
        """Return the body as a JSON object, or None if it is something else."""
        try:
            value = json.loads(self.body)
        except ValueError:
            return None
        return value if isinstance(value, dict) else None


async def read_response(reader: asyncio.StreamReader) -> Response:
    """Read the final response; raises ValueError, EOFError or LimitOverrunError if malformed."""
    status, headers = await _read_head(reader)
    while 100 <= status < 200:
        status, headers = await _read_head(reader)
    return Response(status=status, headers=headers, body=await _read_body(reader, status, headers))


async def _read_head(reader: asyncio.StreamReader) -> tuple[int, dict[str, str]]:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    status_line, *fields = head.strip().split("\r\n")
    version, _, rest = status_line.partition(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError("the answer is not HTTP/1")
    headers = {}
    for field in fields:
        name, _, value = field.partition(":")
        headers[name.strip().lower()] = value.strip()
    return int(rest[:3]), headers


async def _read_body(
    reader: asyncio.StreamReader, status: int, headers: Mapping[str, str]
) -> bytes:
    if status in (204, 304):
        return b""
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return await _read_chunks(reader)
    if (length := headers.get("content-length")) is not None:
        return await reader.readexactly(_within_limit(int(length)))
    body = bytearray()
    while piece := await reader.read(65536):
        body += piece
        _within_limit(len(body))
    return bytes(body)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    """Join the chunks. Trailers stay unread, because the connection is closed afterwards."""
    body = bytearray()
    while size := int((await reader.readline()).partition(b";")[0], 16):
        _within_limit(len(body) + size)
        body += await reader.readexactly(size)
        await reader.readexactly(len(b"\r\n"))
    return bytes(body)


def _within_limit(size: int) -> int:
    if size > BODY_LIMIT:
        raise ValueError(f"the answer is larger than {BODY_LIMIT} bytes")
    return size
