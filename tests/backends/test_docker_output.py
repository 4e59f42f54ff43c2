"""Logs of the Docker backend: kept until the next bot, with many followers."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from botpool.backends.docker import DockerBackend
from botpool.domain.errors import BackendUnavailable
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import ContainerState
from tests.backends.docker_harness import DockerHarness
from tests.backends.harness import eventually, observe, output, start_and_wait, wait_until_down
from tests.support.fences import ANY_ASSIGNMENT

FIRST, SECOND = AssignmentId(11), AssignmentId(12)
CONNECTIONS = 100
"""The connection limit of one client."""


async def test_output_is_kept_until_the_next_bot(docker_harness: DockerHarness) -> None:
    backend = await docker_harness.open_backend()
    container_id = await start_and_wait(docker_harness, backend, FIRST, "print 2")
    await backend.stop(container_id, FIRST, timeout_s=10)
    await wait_until_down(backend, container_id)
    successor = await docker_harness.open_backend()
    assert await output(successor, container_id, FIRST) == b"line 1\nline 2\n"
    await start_and_wait(docker_harness, backend, SECOND, "print 1")
    assert await output(backend, container_id, FIRST) == b""
    assert await output(backend, container_id, SECOND) == b"line 1\n"
    await backend.delete(container_id, stop_through=ANY_ASSIGNMENT, timeout_s=10)
    assert await output(backend, container_id, SECOND) == b""


@pytest.mark.long
async def test_many_log_followers_do_not_block_other_calls(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.open_backend()
    container_id = await start_and_wait(docker_harness, backend, FIRST, "print 1")
    received: asyncio.Queue[bytes] = asyncio.Queue()

    async def follow() -> None:
        async for part in followed(backend, container_id):
            received.put_nowait(part)

    following = [asyncio.create_task(follow()) for _ in range(CONNECTIONS + 1)]
    try:
        await eventually(lambda: received.qsize() >= CONNECTIONS - 1, within_s=60)
        assert (await observe(backend, container_id)).state is ContainerState.RUNNING
    finally:
        for each in following:
            each.cancel()
        await asyncio.gather(*following, return_exceptions=True)


@pytest.mark.parametrize("is_waiting", [True, False])
async def test_ended_follower_closes_its_connection(
    docker_harness: DockerHarness, is_waiting: bool
) -> None:
    """The follower ends while it waits for output, or between two chunks."""
    backend = await docker_harness.open_backend()
    container_id = await start_and_wait(docker_harness, backend, FIRST, "print 1")
    before = docker_harness.socket.connections
    async with aclosing(followed(backend, container_id)) as parts:
        assert await anext(parts) == b"line 1\n"
        assert docker_harness.socket.connections > before
        if is_waiting:
            waiting = asyncio.ensure_future(anext(parts))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait({waiting})
    await eventually(lambda: docker_harness.socket.connections <= before)


async def test_lost_connection_of_followed_log_is_unavailable(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.open_backend()
    container_id = await start_and_wait(docker_harness, backend, FIRST, "print 1")
    async with aclosing(followed(backend, container_id)) as parts:
        assert await anext(parts) == b"line 1\n"
        with docker_harness.outage(), pytest.raises(BackendUnavailable, match="logs: "):
            await anext(parts)


def followed(backend: DockerBackend, container_id: ContainerId) -> AsyncGenerator[bytes, None]:
    return backend.logs(container_id, FIRST, tail=None, follow=True)
