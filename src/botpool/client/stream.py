"""The stream of changes, which reconnects and continues where it failed."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from botpool.client.connection import Connection, read_errors
from botpool.client.errors import Unauthorized, Unavailable, Unreachable
from botpool.client.records import Change, Reset, read

T = TypeVar("T", Change, Reset)
_LONGEST_SILENCE_S = 20.0
"""The server writes a comment every few seconds: a longer silence means a dead connection."""
_RECONNECT_PAUSE_S = 1.0

OnState: TypeAlias = Callable[[str | None], None]
"""Receives None when the stream connects, and the problem when it fails."""


@dataclass(slots=True, kw_only=True)
class ChangeStream:
    """Iterates over changes without end."""

    connection: Connection
    cursor: str | None = None
    on_state: OnState | None = None

    def __iter__(self) -> Iterator[Change | Reset]:
        while True:
            try:
                yield from self._connected()
                self._report("the server ended the stream")
            except Unreachable as error:
                self._report(error.problem)
            except Unavailable as error:
                self._report(error.detail)
            time.sleep(_RECONNECT_PAUSE_S)

    def _report(self, problem: str | None) -> None:
        if self.on_state is not None:
            self.on_state(problem)

    def _connected(self) -> Iterator[Change | Reset]:
        headers = {} if self.cursor is None else {"Last-Event-ID": self.cursor}
        with self.connection.stream(
            "/v1/events", headers=headers, read_timeout_s=_LONGEST_SILENCE_S
        ) as response:
            self._report(None)
            for event_id, kind, data in _parse_events(response.iter_bytes()):
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


def _parse_events(parts: Iterator[bytes]) -> Iterator[tuple[str, str, str]]:
    """Id, kind and data of each event; an id without an event has the kind ''.

    Only a line feed ends a line: JSON may contain other characters that `str.splitlines` splits at.
    """
    event_id, kind, data = "", "", ""
    for line in _split_lines(parts):
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


def _split_lines(parts: Iterator[bytes]) -> Iterator[str]:
    rest = b""
    for part in parts:
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            yield line.decode()
