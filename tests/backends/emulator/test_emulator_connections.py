"""Connection faults, over a socket and in memory."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from botpool.emulators.coolify import (
    EmulatedClock,
    EmulatedCoolify,
    EmulatorConfig,
    EmulatorServer,
)
from tests.backends.emulator.coolify_client import HEADERS, LOCATION
from tests.support.emulated_transport import EmulatedTransport

Connected = tuple[EmulatedCoolify, httpx.AsyncClient]
CREATE = {**LOCATION, "docker_registry_image_name": "team/bot", "name": "bot"}


@asynccontextmanager
async def client_of(kind: str) -> AsyncIterator[Connected]:
    coolify = EmulatedCoolify()
    if kind == "memory":
        transport = EmulatedTransport(coolify, EmulatedClock(manual=True))
        async with httpx.AsyncClient(
            transport=transport, base_url="http://coolify", headers=HEADERS, timeout=30
        ) as client:
            yield coolify, client
    else:
        async with (
            EmulatorServer(coolify, EmulatedClock()) as server,
            httpx.AsyncClient(base_url=server.url, headers=HEADERS, timeout=30) as client,
        ):
            yield coolify, client


async def create(client: httpx.AsyncClient) -> httpx.Response:
    return await client.post("/api/v1/applications/dockerimage", json=CREATE)


@pytest.fixture(params=["memory", "socket"])
async def connected(request: pytest.FixtureRequest) -> AsyncIterator[Connected]:
    async with client_of(request.param) as connected:
        yield connected


@pytest.mark.parametrize("worked", [True, False])
async def test_reset_connection_fault(connected: Connected, worked: bool) -> None:
    coolify, client = connected
    coolify.set_faults({"resetConnection": {"times": 1, "worked": worked}})
    with pytest.raises(httpx.ReadError):
        await create(client)
    assert len(coolify.applications) == worked
    assert (await create(client)).status_code == 201


async def test_half_answer_fault(connected: Connected) -> None:
    coolify, client = connected
    coolify.set_faults({"halfAnswer": {"times": 1}})
    with pytest.raises(httpx.RemoteProtocolError, match="complete message body"):
        await create(client)
    assert len(coolify.applications) == 1
    assert (await create(client)).status_code == 201


@pytest.mark.parametrize("worked", [True, False])
async def test_bad_gateway_fault(connected: Connected, worked: bool) -> None:
    coolify, client = connected
    coolify.set_faults({"badGateway": {"times": 1, "worked": worked}})
    response = await create(client)
    assert response.status_code == 502
    assert response.headers["Content-Type"].startswith("text/html")
    assert "<h1>502 Bad Gateway</h1>" in response.text
    assert len(coolify.applications) == worked


async def test_server_error_fault(connected: Connected) -> None:
    coolify, client = connected
    coolify.set_faults({"serverError": 1})
    response = await create(client)
    assert (response.status_code, response.json()) == (500, {"message": "Server Error"})
    assert len(coolify.applications) == 0


async def test_slow_answer_fault_delays_only_its_endpoint(connected: Connected) -> None:
    coolify, client = connected
    coolify.set_faults({"slowAnswer": {"times": 1, "seconds": 60, "endpoint": "GET /version"}})
    assert (await client.get("/api/v1/health")).text == "OK"
    with pytest.raises(httpx.ReadTimeout):
        await client.get("/api/v1/version", timeout=0.1)
    assert (await client.get("/api/v1/version", timeout=30)).status_code == 200


async def test_coolify_restart_refuses_connections_over_a_socket() -> None:
    clock, coolify = EmulatedClock(20), EmulatedCoolify()
    async with EmulatorServer(coolify, clock) as server:
        async with httpx.AsyncClient(base_url=server.url, headers=HEADERS) as client:
            response = await client.post(
                "/_emulator/faults", json={"restartCoolify": {"seconds": 10}}
            )
            assert response.status_code == 200
        refused, answered = 0, False
        deadline = time.monotonic() + 30
        while not answered and time.monotonic() < deadline:
            async with httpx.AsyncClient(base_url=server.url, headers=HEADERS) as client:
                try:
                    await client.get("/api/v1/version")
                except httpx.ConnectError:
                    refused += 1
                except httpx.ReadError:
                    assert refused == 0, "the listener is still open"
                else:
                    answered = True
            await asyncio.sleep(0.02)
        assert refused
        assert answered
        assert clock.now() >= 10


async def test_open_connection_is_reset_while_coolify_refuses_connections() -> None:
    coolify = EmulatedCoolify()
    async with (
        EmulatorServer(coolify, EmulatedClock()) as server,
        httpx.AsyncClient(base_url=server.url, headers=HEADERS) as client,
    ):
        assert (await client.get("/api/v1/version")).status_code == 200
        coolify.set_faults({"refuseConnection": {"seconds": 3600}})
        with pytest.raises(httpx.ReadError):
            await client.get("/api/v1/version")


async def test_refuse_connection_fault_in_memory() -> None:
    coolify, clock = EmulatedCoolify(), EmulatedClock(manual=True)
    async with httpx.AsyncClient(
        transport=EmulatedTransport(coolify, clock), base_url="http://coolify", headers=HEADERS
    ) as client:
        coolify.set_faults({"refuseConnection": {"seconds": 10}})
        for _ in range(2):
            with pytest.raises(httpx.ConnectError):
                await client.get("/api/v1/version")
        assert (await client.get("/_emulator/state")).json()["requestsByMinute"] == [0]
        clock.advance(10)
        assert (await client.get("/api/v1/version")).status_code == 200


async def test_transport_sleeps_for_slow_response_or_until_timeout() -> None:
    coolify, slept = EmulatedCoolify(), []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    transport = EmulatedTransport(coolify, EmulatedClock(manual=True), sleep=sleep)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://coolify", headers=HEADERS, timeout=60
    ) as client:
        coolify.set_faults({"slowAnswer": {"seconds": 30}})
        assert (await client.get("/api/v1/version")).status_code == 200
        with pytest.raises(httpx.ReadTimeout):
            await client.get("/api/v1/version", timeout=10)
    assert slept == [30, 10]


async def test_server_advances_time_and_scale_can_change() -> None:
    coolify = EmulatedCoolify(EmulatorConfig(status_lag_s=(0, 0)))
    async with (
        EmulatorServer(coolify, EmulatedClock(1)) as server,
        httpx.AsyncClient(base_url=server.url, headers=HEADERS) as client,
    ):
        uuid = (await create(client)).json()["uuid"]
        await client.post(f"/api/v1/applications/{uuid}/start")
        response = await client.post("/_emulator/time", json={"scale": 2000})
        assert response.json()["scale"] == 2000
        deadline = time.monotonic() + 30
        while not coolify.applications[uuid].running and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        assert coolify.applications[uuid].running


async def test_retry_after_is_in_real_seconds() -> None:
    coolify = EmulatedCoolify(EmulatorConfig(requests_per_minute=1))
    async with (
        EmulatorServer(coolify, EmulatedClock(10)) as server,
        httpx.AsyncClient(base_url=server.url, headers=HEADERS) as client,
    ):
        await client.get("/api/v1/version")
        response = await client.get("/api/v1/version")
        assert response.status_code == 429
        assert 1 < int(response.headers["Retry-After"]) <= 6, "a tenth of a minute or less"
        coolify.set_faults({"rateLimited": {"retryAfter": 3}})
        response = await client.get("/api/v1/version")
        assert response.headers["Retry-After"] == "1", "at least 1"


async def test_head_request_and_malformed_request_over_a_socket() -> None:
    async with EmulatorServer(EmulatedCoolify(), EmulatedClock()) as server:
        async with httpx.AsyncClient(base_url=server.url, headers=HEADERS) as client:
            for _ in range(2):
                response = await client.head("/api/v1/version")
                assert (response.status_code, response.content) == (405, b"")
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"not http\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.0 400 ")
        writer.close()


async def test_port_in_use_raises_error() -> None:
    coolify, clock = EmulatedCoolify(), EmulatedClock()
    async with EmulatorServer(coolify, clock) as server:
        second: Any = EmulatorServer(coolify, clock, port=server.port)
        with pytest.raises(OSError, match="in use"):
            await second.start()
        await second.stop()
