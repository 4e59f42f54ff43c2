"""Point 14: what goes wrong below HTTP, over a real socket and in memory alike."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from botpool.emulators.coolify import (
    EmulatedTransport,
    EmulatorServer,
    ManualClock,
    Nature,
    ScaledClock,
    World,
    create_app,
)
from tests.backends.emulator.emulated_coolify import HEADERS, PLACE

CREATE = {**PLACE, "docker_registry_image_name": "team/bot", "name": "bot"}


@asynccontextmanager
async def client_of(kind: str) -> AsyncIterator[tuple[World, httpx.AsyncClient]]:
    world = World()
    if kind == "memory":
        transport = EmulatedTransport(world, ManualClock())
        async with httpx.AsyncClient(
            transport=transport, base_url="http://coolify", headers=HEADERS, timeout=30
        ) as client:
            yield world, client
    else:
        async with (
            EmulatorServer(world, ScaledClock()) as server,
            httpx.AsyncClient(base_url=server.url, headers=HEADERS, timeout=30) as client,
        ):
            yield world, client


async def create(client: httpx.AsyncClient) -> httpx.Response:
    return await client.post("/api/v1/applications/dockerimage", json=CREATE)


@pytest.fixture(params=["memory", "socket"])
async def way(request: pytest.FixtureRequest) -> AsyncIterator[tuple[World, httpx.AsyncClient]]:
    async with client_of(request.param) as way:
        yield way


Way = tuple[World, httpx.AsyncClient]


@pytest.mark.parametrize("worked", [True, False])
async def test_reset(way: Way, worked: bool) -> None:
    world, client = way
    world.set_faults({"resetConnection": {"times": 1, "worked": worked}})
    with pytest.raises(httpx.ReadError):
        await create(client)
    assert len(world.applications) == worked
    assert (await create(client)).status_code == 201


async def test_half_written(way: Way) -> None:
    world, client = way
    world.set_faults({"halfAnswer": {"times": 1}})
    with pytest.raises(httpx.RemoteProtocolError, match="complete message body"):
        await create(client)
    assert len(world.applications) == 1
    assert (await create(client)).status_code == 201


@pytest.mark.parametrize("worked", [True, False])
async def test_bad_gateway(way: Way, worked: bool) -> None:
    world, client = way
    world.set_faults({"badGateway": {"times": 1, "worked": worked}})
    answer = await create(client)
    assert answer.status_code == 502
    assert answer.headers["Content-Type"].startswith("text/html")
    assert "<h1>502 Bad Gateway</h1>" in answer.text
    assert len(world.applications) == worked


async def test_server_error(way: Way) -> None:
    world, client = way
    world.set_faults({"serverError": 1})
    answer = await create(client)
    assert (answer.status_code, answer.json()) == (500, {"message": "Server Error"})
    assert len(world.applications) == 0


async def test_slow(way: Way) -> None:
    world, client = way
    world.set_faults({"slowAnswer": {"times": 1, "seconds": 60, "endpoint": "GET /version"}})
    assert (await client.get("/api/v1/health")).text == "OK"
    with pytest.raises(httpx.ReadTimeout):
        await client.get("/api/v1/version", timeout=0.1)
    assert (await client.get("/api/v1/version", timeout=30)).status_code == 200


async def test_refused_for_a_while_over_a_socket() -> None:
    clock, world = ScaledClock(20), World()
    async with EmulatorServer(world, clock) as server:
        async with httpx.AsyncClient(base_url=server.url, headers=HEADERS) as client:
            answer = await client.post(
                "/_emulator/faults", json={"restartCoolify": {"seconds": 10}}
            )
            assert answer.status_code == 200
        refused, answered = 0, False
        deadline = time.monotonic() + 30
        while not answered and time.monotonic() < deadline:
            async with httpx.AsyncClient(base_url=server.url, headers=HEADERS) as client:
                try:
                    await client.get("/api/v1/version")
                except httpx.ConnectError:
                    refused += 1
                except httpx.ReadError:
                    assert refused == 0, "the door is not shut yet"
                else:
                    answered = True
            await asyncio.sleep(0.02)
        assert refused
        assert answered
        assert clock.now() >= 10


async def test_a_connection_that_stays_open_is_reset_while_coolify_is_down() -> None:
    world = World()
    async with (
        EmulatorServer(world, ScaledClock()) as server,
        httpx.AsyncClient(base_url=server.url, headers=HEADERS) as client,
    ):
        assert (await client.get("/api/v1/version")).status_code == 200
        world.set_faults({"refuseConnection": {"seconds": 3600}})
        with pytest.raises(httpx.ReadError):
            await client.get("/api/v1/version")


async def test_refused_for_a_while_in_memory() -> None:
    world, clock = World(), ManualClock()
    async with httpx.AsyncClient(
        transport=EmulatedTransport(world, clock), base_url="http://coolify", headers=HEADERS
    ) as client:
        world.set_faults({"refuseConnection": {"seconds": 10}})
        for _ in range(2):
            with pytest.raises(httpx.ConnectError):
                await client.get("/api/v1/version")
        assert (await client.get("/_emulator/state")).json()["requestsByMinute"] == [0]
        clock.advance(10)
        assert (await client.get("/api/v1/version")).status_code == 200


async def test_slow_answers_take_the_time_of_whoever_waits() -> None:
    world, slept = World(), []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    transport = EmulatedTransport(world, ManualClock(), sleep=sleep)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://coolify", headers=HEADERS, timeout=60
    ) as client:
        world.set_faults({"slowAnswer": {"seconds": 30}})
        assert (await client.get("/api/v1/version")).status_code == 200
        with pytest.raises(httpx.ReadTimeout):
            await client.get("/api/v1/version", timeout=10)
    assert slept == [30, 10]


async def test_time_passes_by_itself_and_faster() -> None:
    world = World(Nature(status_lag_s=(0, 0)))
    async with (
        EmulatorServer(world, ScaledClock(1)) as server,
        httpx.AsyncClient(base_url=server.url, headers=HEADERS) as client,
    ):
        uuid = (await create(client)).json()["uuid"]
        await client.post(f"/api/v1/applications/{uuid}/start")
        answer = await client.post("/_emulator/time", json={"scale": 2000})
        assert answer.json()["scale"] == 2000
        deadline = time.monotonic() + 30
        while not world.applications[uuid].running and time.monotonic() < deadline:
            await asyncio.sleep(0.01)
        assert world.applications[uuid].running


async def test_retry_after_is_in_the_clients_seconds() -> None:
    world = World(Nature(requests_per_minute=1))
    async with (
        EmulatorServer(world, ScaledClock(10)) as server,
        httpx.AsyncClient(base_url=server.url, headers=HEADERS) as client,
    ):
        await client.get("/api/v1/version")
        answer = await client.get("/api/v1/version")
        assert answer.status_code == 429
        assert 1 < int(answer.headers["Retry-After"]) <= 6, "a tenth of the minute, or of its rest"
        world.set_faults({"rateLimited": {"retryAfter": 3}})
        answer = await client.get("/api/v1/version")
        assert answer.headers["Retry-After"] == "1", "never nothing"


async def test_as_an_asgi_application() -> None:
    world = World()
    transport = httpx.ASGITransport(create_app(world, ManualClock()))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://coolify", headers=HEADERS
    ) as client:
        assert (await create(client)).status_code == 201
        world.set_faults({"resetConnection": 1})
        with pytest.raises(ConnectionAbortedError):
            await client.get("/api/v1/version")


async def test_a_taken_port_is_an_error() -> None:
    world, clock = World(), ScaledClock()
    async with EmulatorServer(world, clock) as server:
        second: Any = EmulatorServer(world, clock, port=server.port)
        with pytest.raises(OSError, match="in use"):
            await second.start()
        await second.stop()
