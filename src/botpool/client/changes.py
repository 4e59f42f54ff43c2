"""The stream of changes, which reconnects and continues where it failed."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from botpool.client.calls import Calls
from botpool.client.connection import Connection
from botpool.client.errors import Unauthorized, Unavailable, Unreachable
from botpool.client.records import Change, Reset, read
from botpool.client.responses import read_errors
from botpool.client.synchronous import Synchronous, iterated

T = TypeVar("T", Change, Reset)
_LONGEST_SILENCE_S = 20.0
"""The server writes a comment every few seconds: a longer silence means a dead connection."""
_RECONNECT_PAUSE_S = 1.0

OnState: TypeAlias = Callable[[str | None], None]
"""Receives None when the stream connects, and the problem when it fails."""


class AsyncChangeCalls(Calls):
    """The stream of changes."""

    async def changes(
        self, *, after: str | None = None, on_state: OnState | None = None
    ) -> AsyncGenerator[Change | Reset, None]:
        """Every change as it happens, without end.

        The stream has a connection of its own, so another thread may read it. It reconnects after
        a failure and continues where it was. `after` is the `cursor` of a change that was read
        earlier. `on_state` receives None when the stream connects and the problem when it fails.
        """
        connection = self._connection.duplicate()
        try:
            stream = _ChangeStream(connection=connection, cursor=after, on_state=on_state)
            async with aclosing(stream.read()) as changes:
                async for change in changes:
                    yield change
        finally:
            await connection.close()


class ChangeCalls(Synchronous):
    """The synchronous call for the stream of changes."""

    changes = iterated(AsyncChangeCalls.changes)


@dataclass(slots=True, kw_only=True)
class _ChangeStream:
    """Yields changes without end."""

    connection: Connection
    cursor: str | None = None
    on_state: OnState | None = None

    async def read(self) -> AsyncGenerator[Change | Reset, None]:
        while True:
            try:
                async with aclosing(self._connected()) as changes:
                    async for change in changes:
                        yield change
                self._report("the server ended the stream")
            except Unreachable as error:
                self._report(error.problem)
            except Unavailable as error:
                self._report(error.detail)
            await self.connection.sleep(_RECONNECT_PAUSE_S)

    def _report(self, problem: str | None) -> None:
        if self.on_state is not None:
            self.on_state(problem)

    async def _connected(self) -> AsyncGenerator[Change | Reset, None]:
        headers = {} if self.cursor is None else {"Last-Event-ID": self.cursor}
        async with self.connection.stream(
            "/v1/events", headers=headers, read_timeout_s=_LONGEST_SILENCE_S
        ) as parts:
            self._report(None)
            async for event_id, kind, data in _parse_events(parts):
                # Before the yield: a reader that stops at an event has read it.
                self.cursor = event_id or self.cursor
                if kind == "denied":
                    raise Unauthorized(401, self._read(Reset, data).reason)
                if kind == "change":
                    yield self._read(Change, data)
                elif kind == "reset":
                    yield self._read(Reset, data)

    def _read(self, kind: type[T], data: str) -> T:
        with read_errors(self.connection.url, "an event"):
            return read(kind, json.loads(data), cursor=self.cursor)


async def _parse_events(parts: AsyncIterator[bytes]) -> AsyncGenerator[tuple[str, str, str], None]:
    """Id, kind and data of each event; an id without an event has the kind ''.

    Only a line feed ends a line: JSON may contain other characters that `str.splitlines` splits at.
    """
    event_id, kind, data = "", "", ""
    async for line in _split_lines(parts):
        if not line:
            yield event_id, kind, data
            event_id, kind, data = "", "", ""
            continue
        name, _, value = line.partition(": ")
        match name:
            case "id":
                event_id = value
            case "event":
                kind = value
            case "data":
                data = value


async def _split_lines(parts: AsyncIterator[bytes]) -> AsyncGenerator[str, None]:
    rest = b""
    async for part in parts:
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            yield line.decode()
