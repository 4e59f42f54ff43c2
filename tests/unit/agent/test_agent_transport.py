"""The bytes: what a server, a proxy or a broken network may answer."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from botpool.agent import Agent
from botpool.agent.errors import Refused, Unavailable
from botpool.agent.response import BODY_LIMIT
from botpool.agent.transport import Transport
from tests.support.fake_control_plane import BOT_ID, CERTIFICATE, ControlPlane


@asynccontextmanager
async def server(
    *pieces: bytes, then_wait: bool = False, timeout_s: float = 0.3
) -> AsyncIterator[Transport]:
    """A server that answers any request with these pieces, and the transport to it."""
    open_writers: list[asyncio.StreamWriter] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_writers.append(writer)
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.001)
        if not then_wait:
            writer.close()

    listening = await asyncio.start_server(answer, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    try:
        yield Transport(f"http://127.0.0.1:{port}", "t", correlation_id=None, timeout_s=timeout_s)
    finally:
        for writer in open_writers:
            writer.close()
        listening.close()


OK = b"HTTP/1.1 200 OK\r\n"


@pytest.mark.parametrize(
    "pieces",
    [
        [OK + b"Content-Length: 7\r\n\r\n", b'{"a":', b"1}"],
        [OK + b"\r\n", b'{"a"', b":1}"],
        [OK + b'Transfer-Encoding: chunked\r\n\r\n3\r\n{"a\r\n4;x=y\r\n":1}\r\n', b"0\r\n\r\n"],
        [b"HTTP/1.1 100 Continue\r\n\r\n", OK + b"content-length:7\r\n\r\n" + b'{"a":1}'],
        [b"HTTP/1.0 201\r\n\r\n" + b'{"a":1}'],
    ],
    ids=["length", "until closed", "chunked", "interim answer", "HTTP/1.0 without a reason"],
)
async def test_response_framings_are_read(pieces: list[bytes]) -> None:
    async with server(*pieces) as transport:
        assert await transport.call("GET", "/") == {"a": 1}


async def test_response_is_complete_although_the_server_keeps_the_connection() -> None:
    async with server(OK + b"Content-Length: 2\r\n\r\n{}", then_wait=True) as transport:
        assert await transport.call("GET", "/") == {}


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        OK + b"Content-Length: 9\r\n\r\n{}",
        OK + b"Content-Length: many\r\n\r\n{}",
        OK + b"Content-Length: -1\r\n\r\n{}",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}",
        OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n",
        OK + b"X: " + b"x" * 100_000 + b"\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 204 No Content\r\n\r\n",
    ],
    ids=[
        "nothing", "half a head", "short", "no number", "negative", "no chunk", "no last chunk",
        "huge head", "not HTTP", "no status", "no content",
    ],
)  # fmt: skip
async def test_malformed_response_counts_as_outage(answer: bytes) -> None:
    async with server(answer) as transport:
        with pytest.raises(Unavailable):
            await transport.call("GET", "/")


@pytest.mark.parametrize(
    "pieces",
    [
        [OK + b"\r\n", *[b"x" * 65536] * (BODY_LIMIT // 65536 + 2)],
        [OK + b"Content-Length: %d\r\n\r\n" % (BODY_LIMIT + 1)],
        [OK + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % (BODY_LIMIT + 1)],
    ],
    ids=["until closed", "length", "chunked"],
)
async def test_oversized_body_is_refused(pieces: list[bytes]) -> None:
    async with server(*pieces, timeout_s=10) as transport:
        with pytest.raises(Unavailable, match="larger than"):
            await transport.call("GET", "/")


async def test_silent_server_times_out() -> None:
    async with asyncio.timeout(30), server(then_wait=True) as transport:
        with pytest.raises(Unavailable, match=r"no answer within 0\.3 s"):
            await transport.call("GET", "/")


@pytest.mark.parametrize(
    ("value", "wait_s"),
    [("3", 3), ("99999", 120), ("-1", 0), ("Wed, 21 Oct 2015 07:28:00 GMT", 0)],
)
async def test_retry_after_is_parsed_and_limited(value: str, wait_s: float) -> None:
    head = f"HTTP/1.1 429 Too Many\r\nRetry-After: {value}\r\n\r\n".encode()
    async with server(head) as transport:
        with pytest.raises(Unavailable) as caught:
            await transport.call("GET", "/")
    assert caught.value.retry_after_s == wait_s


@pytest.mark.parametrize(
    ("status", "text"), [(401, "BOTPOOL_TOKEN"), (403, "BOTPOOL_TOKEN"), (409, "no reason")]
)
async def test_refusal_without_detail_is_explained(status: int, text: str) -> None:
    async with server(f"HTTP/1.1 {status} No\r\n\r\n".encode()) as transport:
        with pytest.raises(Refused, match=text):
            await transport.call("GET", "/")


async def test_request_follows_the_contract() -> None:
    heard: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n") + await reader.readexactly(len(body)))
        writer.write(OK + b"Content-Length: 2\r\n\r\n{}")
        writer.close()

    body = '{"reason":"Grüße"}'.encode()
    listening = await asyncio.start_server(listen, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    url = f"http://user:pass@localhost:{port}/behind/a/proxy/"
    transport = Transport(url, "t0ken", correlation_id="c-1", timeout_s=5)
    await transport.call("POST", "/v1/x", body.decode())
    transport.correlation_id = "c\r\nAuthorization: Bearer other"
    await transport.call("POST", "/v1/x", body.decode())
    listening.close()

    head, _, sent = heard[0].partition(b"\r\n\r\n")
    lines = head.decode().split("\r\n")
    assert lines[0] == "POST /behind/a/proxy/v1/x HTTP/1.1"
    assert {
        f"Host: localhost:{port}",
        "Authorization: Bearer t0ken",
        "X-Correlation-ID: c-1",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
    } <= set(lines)
    assert sent == body
    assert b"other" not in heard[1]


async def test_https_trusts_only_system_certificates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plane = ControlPlane(tls=True)
    plane.up()
    try:
        stranger = Transport(plane.url, "t", correlation_id=None, timeout_s=5)
        with pytest.raises(Unavailable, match=r"(?i)certificate") as caught:
            await stranger.call("GET", "/")
        assert isinstance(caught.value.__cause__, ssl.SSLError)
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
        async with Agent.from_environment(plane.environment()) as agent:
            assert agent.bot.id == BOT_ID
        assert plane.statuses == ["DONE"]
    finally:
        plane.down()
