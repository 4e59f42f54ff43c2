"""The daemon tells us when something ends, over a line that may be cut or go dead."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace

import pytest

from botpool.backends.docker import watch
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import ContainerState
from tests.backends.docker_harness import DockerHarness
from tests.backends.harness import SPEC, TIMEOUT_S, eventually, look, running, seen_down

FIRST = AssignmentId(11)


@pytest.fixture
async def hints(docker_harness: DockerHarness) -> AsyncIterator[set[ContainerId]]:
    """What a control plane hears that does nothing but listen."""
    heard: set[ContainerId] = set()
    backend = await docker_harness.control_plane()

    async def listen() -> None:
        async for container_id in backend.changes():
            heard.add(container_id)

    listening = asyncio.create_task(listen())
    yield heard
    listening.cancel()
    with suppress(asyncio.CancelledError):
        await listening


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "_LISTEN_S", 0.5)


@pytest.mark.parametrize(
    ("method", "path", "state"),
    [
        ("POST", "/containers/{}/kill", ContainerState.EXITED),
        ("DELETE", "/containers/{}?force=1", ContainerState.GONE),
    ],
)
async def test_an_end_is_told_at_once(
    docker_harness: DockerHarness,
    hints: set[ContainerId],
    method: str,
    path: str,
    state: ContainerState,
) -> None:
    backend = await docker_harness.control_plane()
    container_id = await running(docker_harness, backend, FIRST)
    hints.clear()
    docker_harness.dockerd.ask(method, path.format(container_id))
    await eventually(lambda: container_id in hints)
    assert (await look(backend, container_id)).state is state


async def test_nothing_is_told_of_others(
    docker_harness: DockerHarness, hints: set[ContainerId]
) -> None:
    ours, theirs = [await docker_harness.control_plane(each) for each in ("one", "two")]
    other = await theirs.ensure(replace(SPEC, name="pool-zoom-007"), timeout_s=TIMEOUT_S)
    container_id = await running(docker_harness, ours, FIRST)
    await theirs.delete(other, timeout_s=TIMEOUT_S)
    await ours.delete(container_id, timeout_s=TIMEOUT_S)
    await eventually(lambda: container_id in hints)
    assert hints == {container_id}


async def test_after_a_break_all_are_looked_at(
    docker_harness: DockerHarness, hints: set[ContainerId]
) -> None:
    backend = await docker_harness.control_plane()
    container_id = await running(docker_harness, backend, FIRST, "exit 0")
    await seen_down(backend, container_id)
    with docker_harness.outage():
        hints.clear()
    await eventually(lambda: container_id in hints)
    hints.clear()
    docker_harness.dockerd.ask("DELETE", f"/containers/{container_id}")
    await eventually(lambda: container_id in hints)


@pytest.mark.usefixtures("impatient")
async def test_a_line_that_goes_dead_without_a_word_is_not_trusted_for_ever(
    docker_harness: DockerHarness, hints: set[ContainerId]
) -> None:
    """As a firewall leaves it that forgets connections on which nothing was said."""
    backend = await docker_harness.control_plane()
    await eventually(lambda: docker_harness.line.connections)
    container_id = await running(docker_harness, backend, FIRST)
    docker_harness.line.deafen()
    hints.clear()
    docker_harness.dockerd.ask("POST", f"/containers/{container_id}/kill")
    await eventually(lambda: container_id in hints, within_s=60)
