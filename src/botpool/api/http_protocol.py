"""uvicorn's HTTP protocol with a limit for request heads and problem documents for bad requests.

This subclass overrides four methods of uvicorn's protocol because no public option can do the
same: uvicorn limits heads only with its h11 parser, and answers every malformed request with plain
text. The override buys correct responses (431, and 400 as `application/problem+json`) and bounded
memory for a head without end; it buys no speed.
"""

from http import HTTPStatus

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from botpool.api.problems import problem_response

MAX_HEAD_BYTES = 64 * 1024
"""Limit for the bytes of a head after its first read; the first read is never refused."""


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

    def send_400_response(self, msg: str) -> None:
        self._refuse(400, msg)

    def _refuse(self, status: int, detail: str) -> None:
        answer = problem_response(status, detail, headers={"Connection": "close"})
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}".encode()]
        lines += [name + b": " + value for name, value in answer.raw_headers]
        self.transport.write(b"\r\n".join([*lines, b"", bytes(answer.body)]))
        self.transport.close()
