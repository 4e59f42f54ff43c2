"""A server that drains answers requests, closes their connections, and stops after its time."""

import asyncio
import gc
import http.client
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest
from fastapi import FastAPI

from botpool.api.listener import listening_socket
from botpool.api.server import HttpServer

LONG_S = 600.0


@pytest.fixture(autouse=True)
def collecting() -> Iterator[None]:
    """Undo what a ready server does to the garbage collector of its process."""
    threshold = gc.get_threshold()
    yield
    gc.set_threshold(*threshold)
    gc.unfreeze()


def app() -> FastAPI:
    created = FastAPI()

    @created.get("/")
    async def hello() -> str:
        return "hello"

    return created


@asynccontextmanager
async def serving(drain_s: float) -> AsyncIterator[tuple[int, asyncio.Task[None], asyncio.Event]]:
    """Run a server; yield its port, its task, and the event that draining has begun."""
    ready, draining = asyncio.Event(), asyncio.Event()
    with listening_socket("127.0.0.1", 0) as listener:
        port = listener.getsockname()[1]
        server = HttpServer(app(), listener, drain_s=drain_s)
        task = asyncio.create_task(server.serve(on_ready=ready.set, on_drain=draining.set))
        await ready.wait()
        try:
            yield port, task, draining
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().remove_signal_handler(number)


async def test_draining_server_answers_and_closes_connections() -> None:
    async with serving(LONG_S) as (port, task, draining):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        assert await asyncio.to_thread(get, connection) == (200, None)
        os.kill(os.getpid(), signal.SIGTERM)
        await draining.wait()
        # The connection was open before the signal, and its request is not lost.
        assert await asyncio.to_thread(get, connection) == (200, "close")
        fresh = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
        assert await asyncio.to_thread(get, fresh) == (200, "close")
        assert not task.done()


async def test_second_signal_ends_the_draining() -> None:
    async with serving(LONG_S) as (_, task, draining):
        os.kill(os.getpid(), signal.SIGTERM)
        await draining.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(60):
            await task


async def test_server_stops_after_its_time() -> None:
    async with serving(0.05) as (_, task, draining):
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(60):
            await task
        assert draining.is_set()


async def test_server_without_draining_stops_at_once() -> None:
    async with serving(0) as (_, task, draining):
        os.kill(os.getpid(), signal.SIGTERM)
        async with asyncio.timeout(60):
            await task
        assert not draining.is_set()


def get(connection: http.client.HTTPConnection) -> tuple[int, str | None]:
    """Send a request and return the status and the header `Connection`."""
    connection.request("GET", "/")
    response = connection.getresponse()
    response.read()
    return response.status, response.getheader("Connection")
