"""An answer's head and body are one write, and a head without its body still leaves at once."""

import asyncio
from collections.abc import Callable
from typing import Any

import uvicorn
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from uvicorn.server import ServerState

from botpool.api.heads import HttpProtocol

Answering = Callable[[Request], Response]


class Wire(asyncio.Transport):
    """Notes what is written to it, and `None` for the end."""

    def __init__(self) -> None:
        super().__init__({"socket": None, "peername": ("127.0.0.1", 1)})
        self.written: list[bytes | None] = []

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def close(self) -> None:
        self.written.append(None)

    def is_closing(self) -> bool:
        return None in self.written

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


async def written_to(answering: Answering, *heads: str) -> list[bytes | None]:
    """What was written to a client that sent these requests, once nothing moves any more."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await answering(Request(scope))(scope, receive, send)

    config = uvicorn.Config(app, ws="none", log_config=None, lifespan="off")
    config.load()
    protocol = HttpProtocol(config=config, server_state=ServerState(), app_state={})
    wire = Wire()
    protocol.connection_made(wire)
    protocol.data_received("".join(f"{head}\r\n\r\n" for head in heads).encode())
    for _ in range(20):
        await asyncio.sleep(0)
    written = [*wire.written]
    protocol.connection_lost(None)
    return written


def hello(_: Request) -> Response:
    return PlainTextResponse("hello")


async def test_head_and_body_are_one_write() -> None:
    (written,) = await written_to(hello, "GET / HTTP/1.1")
    assert written is not None
    assert written.startswith(b"HTTP/1.1 200 OK\r\n")
    assert written.endswith(b"\r\n\r\nhello")


async def test_a_head_does_not_wait_for_a_body_that_comes_later() -> None:
    def streaming(_: Request) -> Response:
        async def never() -> Any:
            await asyncio.Event().wait()
            yield b""

        return StreamingResponse(never())

    (written,) = await written_to(streaming, "GET / HTTP/1.1")
    assert written is not None
    assert written.startswith(b"HTTP/1.1 200 OK\r\n")
    assert written.endswith(b"\r\n\r\n")


async def test_a_head_without_a_body_is_written() -> None:
    (written,) = await written_to(hello, "HEAD / HTTP/1.1")
    assert written is not None
    assert b"content-length: 5\r\n" in written


async def test_a_head_without_a_body_is_written_before_the_end() -> None:
    head, end = await written_to(hello, "HEAD / HTTP/1.1\r\nConnection: close")
    assert head is not None
    assert head.startswith(b"HTTP/1.1 200 OK\r\n")
    assert end is None


async def test_answers_keep_the_order_of_requests_sent_together() -> None:
    def told(request: Request) -> Response:
        return PlainTextResponse(request.url.path)

    asked = ("HEAD /a HTTP/1.1", "GET /b HTTP/1.1", "GET /c HTTP/1.1")
    first, second, third = await written_to(told, *asked)
    assert first is not None and first.endswith(b"\r\n\r\n")
    assert second is not None and second.endswith(b"\r\n\r\n/b")
    assert third is not None and third.endswith(b"\r\n\r\n/c")
