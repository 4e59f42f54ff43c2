"""Hints from the daemon's events, also after a lost or dead connection."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace

import pytest

from botpool.backends.docker import events
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import ContainerState
from tests.backends.docker_harness import DockerHarness
from tests.backends.harness import (
    SPEC,
    TIMEOUT_S,
    eventually,
    observe,
    start_and_wait,
    wait_until_down,
)
from tests.support.fences import ANY_ASSIGNMENT, NO_ASSIGNMENT

FIRST = AssignmentId(11)


@pytest.fixture
async def hints(docker_harness: DockerHarness) -> AsyncIterator[set[ContainerId]]:
    """The hints of a backend that only listens."""
    received: set[ContainerId] = set()
    backend = await docker_harness.open_backend()

    async def listen() -> None:
        async for container_id in backend.changes():
            received.add(container_id)

    listening = asyncio.create_task(listen())
    yield received
    listening.cancel()
    with suppress(asyncio.CancelledError):
        await listening


@pytest.fixture
def short_subscription(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_SUBSCRIPTION_S", 0.5)


@pytest.mark.parametrize(
    ("method", "path", "state"),
    [
        ("POST", "/containers/{}/kill", ContainerState.EXITED),
        ("DELETE", "/containers/{}?force=1", ContainerState.GONE),
    ],
)
async def test_end_of_container_yields_hint(
    docker_harness: DockerHarness,
    hints: set[ContainerId],
    method: str,
    path: str,
    state: ContainerState,
) -> None:
    backend = await docker_harness.open_backend()
    container_id = await start_and_wait(docker_harness, backend, FIRST)
    hints.clear()
    docker_harness.dockerd.call(method, path.format(container_id))
    await eventually(lambda: container_id in hints)
    assert (await observe(backend, container_id)).state is state


async def test_foreign_containers_yield_no_hints(
    docker_harness: DockerHarness, hints: set[ContainerId]
) -> None:
    ours, theirs = [await docker_harness.open_backend(each) for each in ("one", "two")]
    other = await theirs.ensure(
        replace(SPEC, name="pool-zoom-007"), stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S
    )
    container_id = await start_and_wait(docker_harness, ours, FIRST)
    await theirs.delete(other, stop_through=ANY_ASSIGNMENT, timeout_s=TIMEOUT_S)
    await ours.delete(container_id, stop_through=ANY_ASSIGNMENT, timeout_s=TIMEOUT_S)
    await eventually(lambda: container_id in hints)
    assert hints == {container_id}


async def test_lost_connection_yields_hints_for_all_slots(
    docker_harness: DockerHarness, hints: set[ContainerId]
) -> None:
    backend = await docker_harness.open_backend()
    container_id = await start_and_wait(docker_harness, backend, FIRST, "exit 0")
    await wait_until_down(backend, container_id)
    with docker_harness.outage():
        hints.clear()
    await eventually(lambda: container_id in hints)
    hints.clear()
    docker_harness.dockerd.call("DELETE", f"/containers/{container_id}")
    await eventually(lambda: container_id in hints)


@pytest.mark.usefixtures("short_subscription")
async def test_silently_dead_connection_is_renewed(
    docker_harness: DockerHarness, hints: set[ContainerId]
) -> None:
    """A firewall may drop an idle connection silently."""
    backend = await docker_harness.open_backend()
    await eventually(lambda: docker_harness.socket.connections)
    container_id = await start_and_wait(docker_harness, backend, FIRST)
    docker_harness.socket.hang()
    hints.clear()
    docker_harness.dockerd.call("POST", f"/containers/{container_id}/kill")
    await eventually(lambda: container_id in hints, within_s=60)
