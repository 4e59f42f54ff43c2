"""What lies below the application: bodies and heads without end, and what is not HTTP at all.

Only the server itself shows it, so these speak to a served Botpool, byte by byte where a client
library would be too polite.
"""

import contextlib
import json
import select
import socket
import time
from collections.abc import Iterator

import httpx
import psutil
import pytest

from tests.support.http_server import LINK, Server, assert_problem, bearer, served, unchanged
from tests.support.postgres import TestPostgres

TEN_MB = 10_000_000
PIECE = 32 * 1024
HEAD = b"POST /v1/bots HTTP/1.1\r\nHost: botpool.test\r\n"


@pytest.fixture(scope="module")
def server(
    postgres: TestPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    url = postgres.create_database(template)
    with served(url, tmp_path_factory.mktemp("served")) as server:
        yield server
    postgres.drop_database(url)


@pytest.fixture(scope="module")
def key(server: Server) -> str:
    return server.new_key("user")


def post(server: Server, key: str, content: bytes | Iterator[bytes]) -> httpx.Response:
    headers = bearer(key) | {"Content-Type": "application/json"}
    return httpx.post(f"{server.url}/v1/bots", content=content, headers=headers)


def pieces(total: int) -> Iterator[bytes]:
    yield b'{"meetingUrl": "'
    for _ in range(0, total, PIECE):
        yield b"x" * PIECE


def exchange(server: Server, *sent: bytes) -> httpx.Response:
    """Send piece by piece until the server has answered and hung up.

    A server that hangs up on what it has not read resets the connection: right after its answer,
    or while the next piece is on its way. The answer must be whole all the same.
    """
    received = b""
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection,
        contextlib.suppress(ConnectionResetError, BrokenPipeError),
    ):
        for piece in sent:
            connection.sendall(piece)
            if select.select([connection], [], [], 0.02)[0]:
                break
        while more := connection.recv(65536):
            received += more
    head, _, body = received.partition(b"\r\n\r\n")
    status_line, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    assert headers["connection"] == "close"
    assert len(body) == int(headers["content-length"])
    return httpx.Response(int(status_line.split()[1]), headers=headers, content=body)


def test_ten_megabytes_that_are_declared(server: Server, key: str) -> None:
    with unchanged(server.database_url):
        assert_problem(post(server, key, b"x" * TEN_MB), 413, "at most 1048576 bytes")


def test_ten_megabytes_that_are_not_declared(server: Server, key: str) -> None:
    with unchanged(server.database_url):
        assert_problem(post(server, key, pieces(TEN_MB)), 413, "at most 1048576 bytes")


def test_a_body_without_end_is_not_kept(server: Server, key: str) -> None:
    """The server hangs up; its memory does not grow with what is sent."""
    before = psutil.Process(server.process.pid).memory_info().rss
    for _ in range(5):
        assert_problem(post(server, key, pieces(TEN_MB)), 413)
    grown = psutil.Process(server.process.pid).memory_info().rss - before
    assert grown < 20 * 1024**2


def test_ten_megabytes_where_no_body_is_read(server: Server, key: str) -> None:
    with unchanged(server.database_url):
        answer = httpx.post(f"{server.url}/v1/session", content=pieces(TEN_MB))
        assert_problem(answer, 401)


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"what is this\r\n\r\n",
        b"GET /v1/b\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /v1/bots HTTP/1.1\r\nHost: x\r\nX-Correlation-ID: \x00\r\n\r\n",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nZZ\r\n",
    ],
    ids=["TLS", "words", "byte in path", "NUL", "below 0", "digits", "two", "smuggled", "chunk"],
)
def test_what_is_not_http(server: Server, sent: bytes) -> None:
    with unchanged(server.database_url):
        assert_problem(exchange(server, sent), 400, "Invalid HTTP request")


@pytest.mark.parametrize("start", [b"GET /", HEAD + b"X-Long: "], ids=["address", "header"])
def test_a_head_without_end(server: Server, start: bytes) -> None:
    with unchanged(server.database_url):
        answer = exchange(server, start, *[b"a" * PIECE] * 40)
    # A parser's own limit may come first: an address has one.
    assert answer.status_code in (400, 431)
    assert_problem(answer, answer.status_code)


def test_a_hundred_thousand_headers(server: Server) -> None:
    with unchanged(server.database_url):
        answer = exchange(server, HEAD, *[b"X-Many: a\r\n" * 3000] * 40)
    assert_problem(answer, 431, "at most 65536 bytes")


def test_a_head_that_comes_in_pieces_is_read(server: Server, key: str) -> None:
    content = json.dumps({"meetingUrl": LINK, "queueTimeoutMs": -1}).encode()
    rights = f"Authorization: Bearer {key}\r\nX-Long: {'a' * 40_000}\r\nConnection: close\r\n"
    head = HEAD + rights.encode() + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    whole = head % len(content) + content
    sent = [whole[start : start + 5000] for start in range(0, len(whole), 5000)]
    assert_problem(exchange(server, *sent), 422, "queueTimeoutMs: should be greater")


def test_two_requests_on_one_connection_with_a_large_body_first(server: Server, key: str) -> None:
    """What counts towards a head's limit is the head alone."""
    fields = {"meetingUrl": LINK, "botData": {"a": "x" * 300_000}}
    with httpx.Client(base_url=server.url, headers=bearer(key)) as client:
        for _ in range(3):
            assert_problem(client.post("/v1/bots", json=fields), 422, "botData: should be at most")


def test_an_upgrade_is_answered_as_if_it_had_not_been_asked_for(server: Server) -> None:
    upgrade = {"Connection": "upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "eA=="}
    assert httpx.get(f"{server.url}/healthz", headers=upgrade).json() == {"status": "ok"}


def test_an_idle_connection_outlasts_the_patience_of_clients(server: Server) -> None:
    """httpx and others keep one for five seconds: a server that closes it then loses a request."""
    asked = b"GET /healthz HTTP/1.1\r\nHost: botpool.test\r\n\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        for pause_s in (0, 6.5):
            time.sleep(pause_s)
            connection.sendall(asked)
            assert connection.recv(PIECE).startswith(b"HTTP/1.1 200 ")
