"""The part of HTTP below the application: heads that cannot be read or never end, and how an
answer is written.

uvicorn answers the first in plain text, keeps whatever is sent of the second, and writes the head
of an answer apart from its body: a call of the system and a packet more for every request.
"""

import asyncio
from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from botpool.api.problems import problem

MAX_HEAD_BYTES = 64 * 1024
"""Of a head that is still unfinished after so much: what one read brought is never refused."""


class HttpProtocol(HttpToolsProtocol):
    _head_unfinished = False
    _head_bytes = 0

    def data_received(self, data: bytes) -> None:
        was_unfinished = self._head_unfinished
        super().data_received(data)
        if was_unfinished and self._head_unfinished:
            self._head_bytes += len(data)
            if self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
                limit = f"at most {MAX_HEAD_BYTES} bytes"
                self._refuse(431, f"The address and headers of a request may have {limit}.")

    def on_message_begin(self) -> None:
        self._head_unfinished = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._head_unfinished = False
        super().on_headers_complete()
        # Its task has not begun to run.
        self.cycle.transport = _HeadWithBody(self.transport, self.loop)

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, msg)

    def _refuse(self, status: int, detail: str) -> None:
        answer = problem(status, detail, headers={"Connection": "close"})
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()]
        lines += [name + b": " + value for name, value in answer.raw_headers]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(answer.body)]))
        self.transport.close()


class _HeadWithBody(asyncio.Transport):
    """What one answer is written to: its head waits for the body that follows in the same step.

    One without a body, or whose body comes later, is written when that step has ended.
    """

    __slots__ = ("_began", "_held", "_loop", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._held: bytes | None = None
        self._began = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._began:
            self._began = True
            self._held = bytes(data)
            self._loop.call_soon(self._let_go)
            return
        if self._held is not None:
            data, self._held = self._held + data, None
        self._transport.write(data)

    def close(self) -> None:
        self._let_go()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def _let_go(self) -> None:
        held, self._held = self._held, None
        if held is not None and not self._transport.is_closing():
            self._transport.write(held)
