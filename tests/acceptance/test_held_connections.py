"""Connections that send nothing, or half a request, cost no bot and no request of others."""

import asyncio
import math
import resource
import socket
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import psutil
import pytest

from botpool.store.migrator import migrate
from tests.support.held_connections import HALF_BODY, HALF_HEAD, HeldConnections, attacked
from tests.support.http_server import bearer
from tests.support.postgres import TestPostgres
from tests.support.server import Installation, Server, installation, none_left
from tests.support.sse import opened

USUAL_FILES = ("prlimit", "--nofile=1024:1024")
SETTINGS = {
    "agent.heartbeat_interval_ms": "2000",
    "recovery.heartbeat_freshness_s": "20",
    "recovery.interval_s": "2",
    "deploy.poll_interval_s": "2",
    "pools.google-meet.max_size": "50",
}
SHORT_DEADLINES = {
    "limits.first_byte_timeout_s": "1",
    "limits.head_timeout_s": "1",
    "limits.body_timeout_s": "1",
    "limits.response_timeout_s": "1",
}
REQUEST = {
    "meetingUrl": "https://meet.google.com/abc-defg-hij",
    "botData": {"joinSeconds": 0, "staySeconds": 3600},
}
SERVED_S = 60.0
"""Generous for a busy machine: a server that accepts no connection never answers."""
MIB = 1024**2


@pytest.fixture
async def installed(postgres: TestPostgres, tmp_path: Path) -> AsyncIterator[Installation]:
    url = postgres.create_database()
    migrate(url)
    async with installation(url, tmp_path, SETTINGS) as installed:
        yield installed
    postgres.drop_database(url)


async def test_idle_connections_beyond_the_file_limit_cost_no_heartbeat(
    installed: Installation,
) -> None:
    server = installed.launch(prefix=USUAL_FILES)
    await server.wait_until_ready()
    await run_bots(installed, server, 3)
    async with HeldConnections(server.port) as attack:
        await attack.hold(1_150)
        await every_bot_sends_a_heartbeat(installed)
        await assert_served(installed, server)
        await attack.hold(50, HALF_HEAD)
        await attack.hold(50, HALF_BODY)
        await every_bot_sends_a_heartbeat(installed)
        await assert_served(installed, server)
    assert lost_bots(installed) == []


async def test_connections_without_a_whole_request_are_closed(installed: Installation) -> None:
    """A stream, a followed log and an idle connection with a finished request stay open."""
    server = await installed.serve(settings=SHORT_DEADLINES)
    await run_bots(installed, server, 1)
    async with (
        installed.client(server, limits=httpx.Limits(keepalive_expiry=None)) as user,
        opened(server.url, bearer(installed.key)) as stream,
        user.stream("GET", "/v1/bots/1/logs", params={"follow": "true"}) as logs,
    ):
        kept = await kept_connection(user)
        # Without a key, the answer would be 401 before the body is read.
        key = f"\r\nAuthorization: Bearer {installed.key}\r\n\r\n".encode()
        half_body = HALF_BODY.replace(b"\r\n\r\n", key, 1)
        statuses = await asyncio.gather(
            *(asyncio.to_thread(status_at_the_end, server.port, b"") for _ in range(3)),
            *(asyncio.to_thread(status_at_the_end, server.port, HALF_HEAD) for _ in range(3)),
            *(asyncio.to_thread(status_at_the_end, server.port, half_body) for _ in range(3)),
        )
        assert statuses == [b""] * 3 + [b"408"] * 6
        # Now all deadlines have passed.
        assert await kept_connection(user) == kept
        assert (await user.delete("/v1/bots/1")).status_code == 202
        await stream.until("change", to="LEAVING")
        async with asyncio.timeout(SERVED_S):
            assert b"".join([part async for part in logs.aiter_bytes()])


async def test_server_that_cannot_accept_connections_fails_no_bot(installed: Installation) -> None:
    """Without a file for another connection, heartbeats of live bots do not arrive."""
    server = await installed.serve(settings={"recovery.heartbeat_freshness_s": "5"})
    await run_bots(installed, server, 2)
    process = psutil.Process(server.process.pid)
    limits = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (1, limits[1]))
    try:
        await none_left("bots that are not silent", lambda: heard_bots(installed, 15), within_s=120)
        assert lost_bots(installed) == []
    finally:
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, limits)
    await every_bot_sends_a_heartbeat(installed)
    await assert_served(installed, server)
    assert lost_bots(installed) == []
    assert installed.rows("SELECT count(unanswered_at) FROM liveness") == [(1,)]


@pytest.mark.parametrize(
    ("idle", "half", "bots", "held_s", "settings"),
    [
        pytest.param(400, 100, 5, 12.0, {}, id="short"),
        pytest.param(
            *(2_000, 500, 50, 120.0, {}),
            id="default limits",
            marks=[pytest.mark.long, pytest.mark.alone, pytest.mark.timeout(900)],
        ),
        pytest.param(
            *(2_000, 500, 50, 120.0, {"limits.connections_per_address": "10000"}),
            id="no limit for the address",
            marks=[pytest.mark.long, pytest.mark.alone, pytest.mark.timeout(900)],
        ),
    ],
)
async def test_held_connections_cost_no_bot_no_request_and_no_memory(
    installed: Installation,
    idle: int,
    half: int,
    bots: int,
    held_s: float,
    settings: dict[str, str],
) -> None:
    server = await installed.serve(settings=settings)
    process = psutil.Process(server.process.pid)
    await run_bots(installed, server, bots)
    loop = asyncio.get_running_loop()
    async with (
        attacked(server.port, idle=idle, half=half) as held,
        installed.client(server) as user,
    ):
        memory, times, ends_at = [], list[float](), loop.time() + held_s
        while loop.time() < ends_at:
            times.append(await time_of_a_request(user))
            memory.append(process.memory_info().rss)
            await asyncio.sleep(0.1)
        await every_bot_sends_a_heartbeat(installed)
    sys.stdout.write(summary(times, memory, held))  # `pytest -rP` shows it.
    assert lost_bots(installed) == []
    half_way = len(memory) // 2
    assert max(memory[half_way:]) - max(memory[:half_way]) < 10 * MIB, memory


async def run_bots(installed: Installation, server: Server, count: int) -> None:
    """Request bots and wait until all of them are in their calls."""
    async with installed.client(server) as user:
        for _ in range(count):
            assert (await user.post("/v1/bots", json=REQUEST)).status_code == 201

    async def not_in_call() -> list[tuple[str, ...]]:
        return installed.rows("SELECT id, status FROM bots WHERE status <> 'IN_CALL'")

    await none_left("bots that are not in their calls", not_in_call, within_s=300)


async def every_bot_sends_a_heartbeat(installed: Installation) -> None:
    """Wait until each bot has sent a heartbeat that is newer than this call."""
    ((now,),) = installed.rows("SELECT botpool_now()")

    async def silent() -> list[tuple[str, ...]]:
        return installed.rows("SELECT bot_id, last_at FROM bot_heartbeats WHERE last_at < %s", now)

    await none_left("bots without a new heartbeat", silent, within_s=SERVED_S)


async def heard_bots(installed: Installation, within_s: float) -> list[tuple[str, ...]]:
    return installed.rows(
        "SELECT bot_id FROM bot_heartbeats"
        " WHERE last_at > botpool_now() - make_interval(secs => %s)",
        within_s,
    )


async def assert_served(installed: Installation, server: Server) -> None:
    async with installed.client(server, timeout=SERVED_S) as user:
        assert (await user.get("/v1/bots")).status_code == 200


async def time_of_a_request(user: httpx.AsyncClient) -> float:
    """The time of a request on a connection of its own."""
    began_at = time.monotonic()
    answer = await user.get("/v1/bots", params={"limit": 1}, headers={"Connection": "close"})
    assert answer.status_code == 200
    return time.monotonic() - began_at


async def kept_connection(user: httpx.AsyncClient) -> object:
    """Send a request, and return the client's address of the connection that carried it."""
    answer = await user.get("/v1/bots")
    assert answer.status_code == 200
    return answer.extensions["network_stream"].get_extra_info("socket").getsockname()


def status_at_the_end(port: int, sent: bytes) -> bytes:
    """Send these bytes and wait until the server closes; return the status of its response."""
    with socket.create_connection(("127.0.0.1", port), timeout=SERVED_S) as connection:
        connection.sendall(sent)
        received = b""
        while more := connection.recv(65_536):
            received += more
    return received[9:12]


def lost_bots(installed: Installation) -> list[tuple[str, ...]]:
    return installed.rows("SELECT id, status, failure_code FROM bots WHERE status <> 'IN_CALL'")


def summary(times: list[float], memory: list[int], held: list[str]) -> str:
    p99 = sorted(times)[math.ceil(len(times) * 0.99) - 1]
    grown = (memory[-1] - memory[0]) / MIB
    return (
        f"\n{', '.join(held)}; {len(times)} requests, "
        f"p99 {p99 * 1000:.0f} ms, longest {max(times) * 1000:.0f} ms; "
        f"memory {memory[0] / MIB:.0f} MiB, grown by {grown:.1f} MiB"
    )
