"""A ready server excludes its libraries from garbage collection."""

import asyncio
import contextlib
import gc
from collections.abc import Iterator

import pytest
from fastapi import FastAPI

from botpool.api.listener import listening_socket
from botpool.api.server import HttpServer


@pytest.fixture
def collecting() -> Iterator[None]:
    """Unfreeze the collector for the test and restore its threshold."""
    threshold = gc.get_threshold()
    gc.unfreeze()
    yield
    gc.set_threshold(*threshold)
    gc.unfreeze()


@pytest.mark.usefixtures("collecting")
async def test_ready_server_freezes_loaded_objects() -> None:
    loaded, before = len(gc.get_objects()), gc.get_threshold()
    with listening_socket("127.0.0.1", 0) as listener:
        serving = asyncio.create_task(HttpServer(FastAPI(), listener).serve())
        async with asyncio.timeout(10):
            while gc.get_freeze_count() == 0:
                await asyncio.sleep(0.01)
        assert len(gc.get_objects()) < loaded / 10
        assert gc.get_threshold()[0] > before[0]
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
