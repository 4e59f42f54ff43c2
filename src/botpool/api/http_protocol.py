"""uvicorn's HTTP protocol with limits, deadlines and problem documents for bad requests.

This subclass overrides methods of uvicorn's protocol because no public option can do the same:
uvicorn limits heads only with its h11 parser, answers every malformed request with plain text, and
waits forever for the first byte, the head and the body of a request. The override buys correct
responses (408, 431, and 400 as `application/problem+json`) and bounded memory, files and time for
clients that send no whole request; it buys no speed.
"""

import asyncio
from enum import Enum
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from botpool.api.connections import CallerKind, ConnectionTable, source_of
from botpool.api.problems import problem_response

MAX_HEAD_BYTES = 64 * 1024
"""Limit for the bytes of a head after its first read; the first read is never refused."""


class _Phase(Enum):
    """What a connection is doing."""

    FIRST_BYTE = "first_byte"
    """Nothing has arrived since the accept."""
    HEAD = "head"
    BODY = "body"
    ANSWERING = "answering"
    IDLE = "idle"
    """Between two requests. uvicorn's keep-alive timeout ends this phase."""


class HttpProtocol(HttpToolsProtocol):
    table = ConnectionTable()
    """The table of all connections; `protocol_for` sets that of a server."""

    caller = CallerKind.UNKNOWN
    source: str | None = None
    _phase: _Phase | None = None
    _deadline: asyncio.TimerHandle | None = None
    _send_deadline: asyncio.TimerHandle | None = None
    _message_unfinished = False
    _head_unfinished = False
    _head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if self.client is not None:
            host = self.client[0]
            if self.table.is_trusted_proxy(host):
                self.caller = CallerKind.USER
            else:
                self.source = source_of(host)
        if self.table.admit(self, self.loop.time()):
            self._enter(_Phase.FIRST_BYTE)
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.table.remove(self)
        for timer in (self._deadline, self._send_deadline):
            if timer is not None:
                timer.cancel()
        if self.scope is not None:
            self.scope["state"].pop("identify_connection", None)  # Breaks a reference cycle.
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        was_unfinished = self._head_unfinished
        super().data_received(data)
        if was_unfinished and self._head_unfinished:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
                limit = f"at most {MAX_HEAD_BYTES} bytes"
                self._refuse(431, f"The address and headers of a request may have {limit}.")
        phase = self._current_phase()
        # Bytes that begin no request, such as empty lines, count towards the next head.
        self._enter(_Phase.HEAD if phase is _Phase.IDLE else phase)

    def on_message_begin(self) -> None:
        self._message_unfinished = True
        self._head_unfinished = True
        self._head_bytes = 0
        super().on_message_begin()
        self.scope["state"]["identify_connection"] = self._identify

    def on_headers_complete(self) -> None:
        self._head_unfinished = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._message_unfinished = False
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self.transport.is_closing():
            self._enter(self._current_phase())
        elif self.transport.get_write_buffer_size():
            self._limit_sending()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._limit_sending()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._send_deadline is not None and not self.transport.is_closing():
            self._send_deadline.cancel()
            self._send_deadline = None

    def timeout_keep_alive_handler(self) -> None:
        # Closing would wait for a client that does not read the end of its last response.
        self._close_or_abort()

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, msg)

    def abort(self) -> None:
        """Close the connection without a response, to make room for another."""
        self.transport.abort()

    def _identify(self, caller: CallerKind) -> None:
        if caller is not self.caller:
            self.table.identify(self, caller, self.loop.time())

    def _current_phase(self) -> _Phase:
        if self._message_unfinished and not self._head_unfinished:
            return _Phase.BODY
        # A client may send the start of its next request before it has the answer to this one.
        if self.cycle is not None and not self.cycle.response_complete:
            return _Phase.ANSWERING
        return _Phase.HEAD if self._head_unfinished else _Phase.IDLE

    def _enter(self, phase: _Phase) -> None:
        if phase is self._phase:
            return
        self._phase = phase
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if phase is _Phase.ANSWERING:
            self.table.work(self)
            return
        self.table.wait(self, self.loop.time())
        if phase is not _Phase.IDLE:
            self._limit_receiving()

    def _limit_receiving(self) -> None:
        limits = self.table.limits
        seconds = {
            _Phase.FIRST_BYTE: limits.first_byte_s,
            _Phase.HEAD: limits.head_s,
            _Phase.BODY: limits.body_s,
        }
        assert self._phase is not None
        self._deadline = self.loop.call_later(seconds[self._phase], self._on_deadline)

    def _on_deadline(self) -> None:
        self._deadline = None
        phase = self._phase
        assert phase is not None
        if phase is _Phase.BODY and self.flow.read_paused:
            self._limit_receiving()  # The server does not read; the client may be waiting for it.
            return
        if self.transport.is_closing():
            return
        self.table.on_closed(phase.value)
        if phase is _Phase.HEAD or (phase is _Phase.BODY and not self.cycle.response_started):
            self._refuse(408, f"The {phase.value} of the request did not arrive in time.")
        else:
            self._close_or_abort()

    def _limit_sending(self) -> None:
        if self._send_deadline is None:
            seconds = self.table.limits.response_s
            self._send_deadline = self.loop.call_later(seconds, self._on_send_deadline)

    def _on_send_deadline(self) -> None:
        self.table.on_closed("response")
        self.transport.abort()

    def _close_or_abort(self) -> None:
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def _refuse(self, status: int, detail: str) -> None:
        answer = problem_response(status, detail, headers={"Connection": "close"})
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()]
        lines += [name + b": " + value for name, value in answer.raw_headers]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(answer.body)]))
        self.transport.close()
        if self.transport.get_write_buffer_size():
            self._limit_sending()


def protocol_for(connections: ConnectionTable) -> type[HttpProtocol]:
    """Return the protocol of a server with this table; uvicorn creates it for each connection."""

    class _ServerProtocol(HttpProtocol):
        table = connections

    return _ServerProtocol
