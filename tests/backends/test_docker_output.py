"""Output of bots: kept until the next one, and read by many without being in anybody's way."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from botpool.backends.docker import DockerBackend
from botpool.domain.errors import BackendUnavailable
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import ContainerState
from tests.backends.docker_harness import DockerHarness
from tests.backends.harness import eventually, look, output, running, seen_down

FIRST, SECOND = AssignmentId(11), AssignmentId(12)
CONNECTIONS = 100
"""What one client has."""


async def test_output_is_kept_until_the_next_bot(docker_harness: DockerHarness) -> None:
    backend = await docker_harness.control_plane()
    container_id = await running(docker_harness, backend, FIRST, "print 2")
    await backend.stop(container_id, FIRST, timeout_s=10)
    await seen_down(backend, container_id)
    successor = await docker_harness.control_plane()
    assert await output(successor, container_id, FIRST) == b"line 1\nline 2\n"
    await running(docker_harness, backend, SECOND, "print 1")
    assert await output(backend, container_id, FIRST) == b""
    assert await output(backend, container_id, SECOND) == b"line 1\n"
    await backend.delete(container_id, timeout_s=10)
    assert await output(backend, container_id, SECOND) == b""


@pytest.mark.long
async def test_followers_do_not_keep_a_control_plane_from_its_work(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.control_plane()
    container_id = await running(docker_harness, backend, FIRST, "print 1")
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def follow() -> None:
        async for part in followed(backend, container_id):
            heard.put_nowait(part)

    following = [asyncio.create_task(follow()) for _ in range(CONNECTIONS + 1)]
    try:
        await eventually(lambda: heard.qsize() >= CONNECTIONS - 1, within_s=60)
        assert (await look(backend, container_id)).state is ContainerState.RUNNING
    finally:
        for each in following:
            each.cancel()
        await asyncio.gather(*following, return_exceptions=True)


@pytest.mark.parametrize("is_waiting", [True, False])
async def test_who_stops_following_leaves_nothing_open(
    docker_harness: DockerHarness, is_waiting: bool
) -> None:
    """Whether he goes while the bot is silent, or while its words are on the way to him."""
    backend = await docker_harness.control_plane()
    container_id = await running(docker_harness, backend, FIRST, "print 1")
    before = docker_harness.line.connections
    async with aclosing(followed(backend, container_id)) as parts:
        assert await anext(parts) == b"line 1\n"
        assert docker_harness.line.connections > before
        if is_waiting:
            waiting = asyncio.ensure_future(anext(parts))
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait({waiting})
    await eventually(lambda: docker_harness.line.connections <= before)


async def test_a_break_is_not_passed_off_as_the_end(docker_harness: DockerHarness) -> None:
    backend = await docker_harness.control_plane()
    container_id = await running(docker_harness, backend, FIRST, "print 1")
    async with aclosing(followed(backend, container_id)) as parts:
        assert await anext(parts) == b"line 1\n"
        with docker_harness.outage(), pytest.raises(BackendUnavailable, match="logs: "):
            await anext(parts)


def followed(backend: DockerBackend, container_id: ContainerId) -> AsyncGenerator[bytes, None]:
    return backend.logs(container_id, FIRST, tail=None, follow=True)
