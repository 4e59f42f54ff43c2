"""The stream of changes, without its gaps: a lost connection is made again where it was lost."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from botpool.client.connection import Connection, silent_for
from botpool.client.errors import Unauthorized, Unavailable, Unreachable
from botpool.client.records import Change, Reset, read

_SILENT_S = 20.0
"""The server says every few seconds that it is there: so long a silence is a dead connection."""
_RETRY_S = 1.0

OnState: TypeAlias = Callable[[str | None], None]
"""Told None whenever the stream is live, and why it is not whenever it is lost."""


def _unheard(_: str | None) -> None: ...


@dataclass(slots=True, kw_only=True)
class ChangeStream:
    """Changes as they happen, for as long as somebody asks for the next."""

    connection: Connection
    cursor: str | None = None
    on_state: OnState = _unheard
    pause: Callable[[float], None] = field(default=time.sleep)

    def __iter__(self) -> Iterator[Change | Reset]:
        while True:
            try:
                yield from self._connected()
                self.on_state("the server ended the stream")
            except Unreachable as error:
                self.on_state(error.problem)
            except Unavailable as error:
                self.on_state(error.detail)
            self.pause(_RETRY_S)

    def _connected(self) -> Iterator[Change | Reset]:
        headers = {} if self.cursor is None else {"Last-Event-ID": self.cursor}
        timeout = silent_for(_SILENT_S)
        with self.connection.stream("/v1/events", headers=headers, timeout=timeout) as response:
            self.on_state(None)
            for event_id, kind, data in _events(response.iter_bytes()):
                # Moved before it is told: whoever stops at an event has read it.
                self.cursor = event_id or self.cursor
                if kind == "denied":
                    raise Unauthorized(401, data["reason"])
                if kind == "change":
                    yield read(Change, data, cursor=self.cursor)
                elif kind == "reset":
                    yield read(Reset, data, cursor=self.cursor)


def _events(parts: Iterator[bytes]) -> Iterator[tuple[str, str, Any]]:
    """Id, kind and data of each event; an id that comes alone has the kind ''.

    Only line feeds end a line here, as our server writes it: JSON may hold other separators that
    text is commonly split at.
    """
    event_id, kind, data = "", "", ""
    for line in _lines(parts):
        if not line:
            yield event_id, kind, json.loads(data) if data else {}
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


def _lines(parts: Iterator[bytes]) -> Iterator[str]:
    rest = b""
    for part in parts:
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            yield line.decode()
