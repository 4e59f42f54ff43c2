"""Deadlines of connections, on a clock that the test moves."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from botpool.api.connections import ConnectionLimits, ConnectionTable
from botpool.api.http_protocol import protocol_for

LIMITS = ConnectionLimits()
HEAD = b"POST /v1/bots HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n"
WHOLE = HEAD + b"\r\n0123456789"


@dataclass(eq=False)
class Timer:
    at: float
    callback: Callable[[], None]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


class MovedLoop:
    """The running loop with a clock and timers of its own."""

    def __init__(self) -> None:
        self.now = 0.0
        self._timers: list[Timer] = []
        self.create_task = asyncio.get_running_loop().create_task

    def time(self) -> float:
        return self.now

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        self._timers.append(timer := Timer(self.now + delay_s, callback))
        return timer

    def advance(self, seconds: float) -> None:
        """Move the clock and call the timers that are due on the way, in order."""
        end = self.now + seconds
        while due := [each for each in self._timers if not each.cancelled and each.at <= end]:
            timer = min(due, key=lambda each: each.at)
            self._timers.remove(timer)
            self.now = timer.at
            timer.callback()
        self.now = end


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.1", 1), "sockname": ("192.0.2.9", 2)})
        self.sent = b""
        self.closing = False
        self.aborted = False
        self.unsent = 0

    def write(self, data: Any) -> None:
        self.sent += bytes(data)

    def close(self) -> None:
        self.closing = True

    def abort(self) -> None:
        self.closing = self.aborted = True

    def is_closing(self) -> bool:
        return self.closing

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


@dataclass
class Client:
    """A connection, and an application that answers when the test lets it."""

    reads_body: bool = True
    closed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.loop = MovedLoop()
        self.transport = FakeTransport()
        self.table = ConnectionTable(LIMITS, on_closed=self.closed.append)
        keep_alive = int(LIMITS.keep_alive_s)
        config = uvicorn.Config(
            self._app, interface="asgi3", log_config=None, timeout_keep_alive=keep_alive
        )
        self.protocol = protocol_for(self.table)(config, ServerState(), {}, self.loop)  # type: ignore[arg-type]
        self.protocol.connection_made(self.transport)

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        while self.reads_body and (await receive()).get("more_body"):
            pass
        await self.may_answer.wait()
        headers = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"ok"})

    def send(self, data: bytes) -> None:
        self.protocol.data_received(data)

    async def answer(self) -> None:
        """Let the application answer, and wait until it has."""
        before = self.statuses
        self.may_answer.set()
        async with asyncio.timeout(60):
            while self.statuses == before:
                await asyncio.sleep(0)
            await asyncio.sleep(0)
        self.may_answer.clear()

    @property
    def statuses(self) -> list[int]:
        parts = self.transport.sent.split(b"HTTP/1.1 ")[1:]
        return [int(part[:3]) for part in parts]

    def assert_open_until(self, seconds: float) -> None:
        self.loop.advance(seconds - 0.1)
        assert not self.transport.closing
        self.loop.advance(0.2)
        assert self.transport.closing


async def test_connection_without_a_byte_is_closed() -> None:
    client = Client()
    client.assert_open_until(LIMITS.first_byte_s)
    assert (client.closed, client.transport.sent) == (["first_byte"], b"")


@pytest.mark.parametrize("sent", [b"P", HEAD, b"\r\n"], ids=["byte", "headers", "empty line"])
async def test_half_head_is_refused(sent: bytes) -> None:
    client = Client()
    client.loop.advance(9)
    client.send(sent)
    client.assert_open_until(LIMITS.head_s)
    assert (client.closed, client.statuses) == (["head"], [408])


@pytest.mark.parametrize(
    ("start", "more"), [(HEAD + b"X-Slow: ", b"a"), (b"\r\n", b"\r\n")], ids=["header", "lines"]
)
async def test_bytes_do_not_extend_the_deadline_of_a_head(start: bytes, more: bytes) -> None:
    client = Client()
    client.send(start)
    for _ in range(9):
        client.loop.advance(1)
        client.send(more)
    client.assert_open_until(1)
    assert client.statuses == [408]


async def test_bytes_do_not_extend_the_deadline_of_a_body() -> None:
    client = Client()
    client.send(HEAD + b"\r\n")
    for _ in range(9):
        client.loop.advance(6)
        client.send(b"1")
        await asyncio.sleep(0)
    client.assert_open_until(6)
    assert (client.closed, client.statuses) == (["body"], [408])


async def test_slow_but_honest_client_is_answered() -> None:
    client = Client()
    client.loop.advance(9)
    for start in range(0, len(HEAD), 16):
        client.send(HEAD[start : start + 16])
        client.loop.advance(1)
    client.send(b"\r\n")
    for digit in b"0123456789":
        client.loop.advance(5.9)
        client.send(bytes([digit]))
    await client.answer()
    assert (client.closed, client.statuses) == ([], [200])


async def test_answer_may_take_any_time() -> None:
    client = Client()
    client.send(WHOLE)
    client.loop.advance(86_400)
    await client.answer()
    assert (client.closed, client.statuses) == ([], [200])
    assert not client.transport.closing


async def test_kept_connection_has_its_deadlines_again() -> None:
    client = Client()
    for _ in range(3):
        client.send(WHOLE)
        await client.answer()
        client.loop.advance(LIMITS.keep_alive_s - 1)
    client.send(b"GET / HT")
    client.assert_open_until(LIMITS.head_s)
    assert (client.closed, client.statuses) == (["head"], [200, 200, 200, 408])


async def test_kept_connection_is_closed_after_its_idle_time() -> None:
    client = Client()
    client.send(WHOLE)
    await client.answer()
    client.assert_open_until(LIMITS.keep_alive_s)
    assert client.closed == []


async def test_body_that_never_ends_after_its_answer_is_closed_without_another() -> None:
    client = Client(reads_body=False)
    client.send(HEAD + b"\r\n0")
    await client.answer()
    client.send(b"1")
    client.assert_open_until(LIMITS.body_s)
    assert (client.closed, client.statuses) == (["body"], [200])


async def test_rest_of_a_body_after_its_answer_does_not_keep_the_connection_forever() -> None:
    client = Client(reads_body=False)
    client.send(HEAD + b"\r\n0")
    await client.answer()
    client.send(b"123456789")
    client.assert_open_until(LIMITS.head_s)


async def test_body_that_the_server_does_not_read_yet_has_time() -> None:
    client = Client(reads_body=False)
    client.send(HEAD.replace(b"10", b"900000") + b"\r\n" + b"x" * 100_000)
    client.loop.advance(10 * LIMITS.body_s)
    assert not client.transport.closing


async def test_pipelined_half_head_waits_for_the_answer_before() -> None:
    client = Client()
    client.send(WHOLE + b"GET / HT")
    client.loop.advance(600)
    await client.answer()
    client.assert_open_until(LIMITS.head_s)
    assert client.statuses == [200, 408]


async def test_client_that_does_not_read_its_response_is_cut_off() -> None:
    client = Client()
    client.send(WHOLE)
    client.protocol.pause_writing()
    client.loop.advance(LIMITS.response_s - 1)
    client.protocol.resume_writing()
    client.loop.advance(3600)
    assert not client.transport.closing
    client.protocol.pause_writing()
    try:
        client.assert_open_until(LIMITS.response_s)
        assert (client.closed, client.transport.aborted) == (["response"], True)
    finally:
        client.protocol.resume_writing()  # uvicorn waits for it before it ends the request.


async def test_closing_connection_does_not_wait_forever_for_its_reader() -> None:
    client = Client()
    client.send(WHOLE.replace(b"Host: x", b"Host: x\r\nConnection: close"))
    client.transport.unsent = 10
    await client.answer()
    assert client.transport.closing
    client.loop.advance(LIMITS.response_s - 1)
    assert not client.transport.aborted
    client.loop.advance(2)
    assert client.transport.aborted


async def test_waiting_connection_makes_room_and_a_busy_one_does_not() -> None:
    client = Client()
    assert client.protocol in client.table._waiting[client.protocol.caller]
    client.send(HEAD)
    client.send(b"\r\n01234")
    assert client.protocol in client.table._waiting[client.protocol.caller]
    client.send(b"56789")
    assert client.protocol not in client.table._waiting[client.protocol.caller]
    await client.answer()
    assert client.protocol in client.table._waiting[client.protocol.caller]
    client.protocol.connection_lost(None)
    assert client.table.count() == 0
