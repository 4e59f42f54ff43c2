"""Oversized bodies, oversized heads and malformed requests, sent to a running server.

Some tests send raw bytes, because a client library would refuse to send them.
"""

import contextlib
import http.client
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
    return httpx.post(f"{server.url}/v1/bots", content=content, headers=headers, timeout=60)


def pieces(total: int) -> Iterator[bytes]:
    yield b'{"meetingUrl": "'
    for _ in range(0, total, PIECE):
        yield b"x" * PIECE


def send_raw(server: Server, *sent: bytes) -> httpx.Response:
    """Send piece by piece until the server has responded and closed the connection.

    A server that closes with unread data resets the connection, right after its response or while
    the next piece travels. The response must be complete all the same.
    """
    received = b""
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection,
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


def test_declared_large_body_is_refused(server: Server, key: str) -> None:
    with unchanged(server.database_url):
        assert_problem(post(server, key, b"x" * TEN_MB), 413, "at most 131072 bytes")


def test_undeclared_large_body_is_refused(server: Server, key: str) -> None:
    with unchanged(server.database_url):
        assert_problem(post(server, key, pieces(TEN_MB)), 413, "at most 131072 bytes")


def test_large_bodies_do_not_grow_the_servers_memory(server: Server, key: str) -> None:
    before = psutil.Process(server.process.pid).memory_info().rss
    for _ in range(5):
        assert_problem(post(server, key, pieces(TEN_MB)), 413)
    grown = psutil.Process(server.process.pid).memory_info().rss - before
    assert grown < 20 * 1024**2


def test_large_body_for_a_route_without_body_gets_the_routes_error(
    server: Server, key: str
) -> None:
    with unchanged(server.database_url):
        answer = httpx.post(f"{server.url}/v1/session", content=pieces(TEN_MB), timeout=60)
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
def test_malformed_request_gets_a_problem_document(server: Server, sent: bytes) -> None:
    with unchanged(server.database_url):
        assert_problem(send_raw(server, sent), 400, "Invalid HTTP request")


@pytest.mark.parametrize("start", [b"GET /", HEAD + b"X-Long: "], ids=["address", "header"])
def test_head_without_end_is_refused(server: Server, start: bytes) -> None:
    with unchanged(server.database_url):
        answer = send_raw(server, start, *[b"a" * PIECE] * 40)
    # The parser has its own, smaller limit for addresses.
    assert answer.status_code in (400, 431)
    assert_problem(answer, answer.status_code)


def test_too_many_headers_are_refused(server: Server) -> None:
    with unchanged(server.database_url):
        answer = send_raw(server, HEAD, *[b"X-Many: a\r\n" * 3000] * 40)
    assert_problem(answer, 431, "at most 65536 bytes")


def test_head_in_pieces_is_read(server: Server, key: str) -> None:
    content = json.dumps({"meetingUrl": LINK, "queueTimeoutMs": -1}).encode()
    rights = f"Authorization: Bearer {key}\r\nX-Long: {'a' * 40_000}\r\nConnection: close\r\n"
    head = HEAD + rights.encode() + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    whole = head % len(content) + content
    sent = [whole[start : start + 5000] for start in range(0, len(whole), 5000)]
    assert_problem(send_raw(server, *sent), 422, "queueTimeoutMs: should be greater")


def test_body_does_not_count_towards_the_head_limit(server: Server, key: str) -> None:
    fields = {"meetingUrl": LINK, "botData": {"a": "x" * 100_000}}
    with httpx.Client(base_url=server.url, headers=bearer(key), timeout=60) as client:
        for _ in range(3):
            assert_problem(client.post("/v1/bots", json=fields), 422, "botData: should be at most")


def test_upgrade_request_is_answered_without_upgrade(server: Server) -> None:
    upgrade = {"Connection": "upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "eA=="}
    assert httpx.get(f"{server.url}/healthz", headers=upgrade, timeout=60).json() == {
        "status": "ok"
    }


def test_idle_connection_stays_open_longer_than_clients_keep_theirs(server: Server) -> None:
    """httpx and others keep a connection for five seconds: closing it earlier loses a request."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    with contextlib.closing(connection):
        connection.connect()
        first = connection.sock
        for pause_s in (0, 6.5):
            time.sleep(pause_s)
            connection.request("GET", "/healthz")
            response = connection.getresponse()
            assert (response.status, response.read()) == (200, b'{"status":"ok"}')
            assert connection.sock is first


@pytest.mark.parametrize("hosts", [b"", b"Host: a\r\nHost: b\r\n"], ids=["none", "two"])
def test_request_without_exactly_one_host_is_refused(
    server: Server, key: str, hosts: bytes
) -> None:
    head = b"GET /v1/bots HTTP/1.1\r\nX-API-Key: " + key.encode() + b"\r\n"
    with unchanged(server.database_url):
        answer = send_raw(server, head + hosts + b"\r\n")
    assert_problem(answer, 400, "exactly one Host header")


def test_encoded_slash_is_refused_before_it_is_decoded(server: Server, key: str) -> None:
    head = b"GET /v1/bots/1%2Fevents HTTP/1.1\r\nHost: x\r\nX-API-Key: " + key.encode()
    assert_problem(send_raw(server, head + b"\r\n\r\n"), 400, "encoded slash")
