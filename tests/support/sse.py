"""Server-Sent Events as a browser reads them, for tests."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx

TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    id: str
    kind: str
    data: Any


@dataclass(slots=True, kw_only=True)
class Stream:
    """An open stream. `last_id` includes ids that arrive without an event."""

    response: httpx.Response
    last_id: str = ""
    comments: list[str] = field(default_factory=list)
    _lines: AsyncIterator[str] = field(init=False)

    def __post_init__(self) -> None:
        self._lines = self.response.aiter_lines()

    async def next(self) -> Event | None:
        """The next event; None at the end of the stream."""
        kind, data = "message", ""
        async with asyncio.timeout(TIMEOUT_S):
            async for line in self._lines:
                name, _, value = line.partition(": ")
                if line == "" and data:
                    return Event(id=self.last_id, kind=kind, data=json.loads(data))
                if name == "id":
                    self.last_id = value
                elif name == "event":
                    kind = value
                elif name == "data":
                    data += value
                elif line.startswith(":"):
                    self.comments.append(line)
        return None

    async def until(self, event_kind: str, /, **wanted: object) -> list[Event]:
        """All events up to and including the first one of this kind with these fields."""
        found = []
        while (event := await self.next()) is not None:
            found.append(event)
            if event.kind == event_kind and wanted.items() <= event.data.items():
                return found
        raise AssertionError(f"the stream ended without {event_kind} {wanted}; it sent {found}")

    async def rest(self) -> list[Event]:
        found = []
        while (event := await self.next()) is not None:
            found.append(event)
        return found


@asynccontextmanager
async def opened(
    url: str, headers: Mapping[str, str], last_id: str | None = None
) -> AsyncIterator[Stream]:
    """Open the stream. After its first line it sends every change."""
    sent = {**headers} if last_id is None else {**headers, "Last-Event-ID": last_id}
    async with (
        httpx.AsyncClient(trust_env=False, timeout=TIMEOUT_S) as client,
        client.stream("GET", f"{url}/v1/events", headers=sent) as response,
    ):
        assert response.status_code == 200, (await response.aread()).decode()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Stream(response=response)
