"""A start in a slot whose image is present sends few requests, and a late stop still wins."""

from collections.abc import Awaitable
from typing import Any

import pytest

from botpool.backends.docker.daemon import Daemon
from botpool.backends.docker.slot_containers import Container
from botpool.domain.errors import StartSuperseded
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import ContainerState
from tests.backends.docker_harness import DockerHarness
from tests.backends.harness import SPEC, TIMEOUT_S, eventually, observe, start_request
from tests.support.fences import NO_ASSIGNMENT

FIRST, SECOND = AssignmentId(11), AssignmentId(12)


async def ended_bot(harness: DockerHarness) -> ContainerId:
    """Return a slot in which a bot has run and ended."""
    backend = await harness.open_backend()
    container_id = await backend.ensure(SPEC, stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S)
    request = start_request(harness, container_id, FIRST)
    await backend.start(request, timeout_s=TIMEOUT_S)
    await backend.stop(container_id, FIRST, timeout_s=TIMEOUT_S)
    assert (await observe(backend, container_id)).state is not ContainerState.RUNNING
    return container_id


async def test_start_sends_only_the_requests_that_the_fence_needs(
    docker_harness: DockerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    container_id = await ended_bot(docker_harness)
    backend = await docker_harness.open_backend()
    sent: list[str] = []
    send = Daemon._send

    async def recorded(daemon: Daemon, request: Awaitable[Any]) -> Any:
        sent.append(request.__name__)  # type: ignore[attr-defined]
        return await send(daemon, request)

    monkeypatch.setattr(Daemon, "_send", recorded)
    request = start_request(docker_harness, container_id, SECOND)
    await backend.start(request, timeout_s=TIMEOUT_S)
    assert sent == ["list", "create", "list", "delete", "rename", "start"]
    await eventually(lambda: len(docker_harness.runs(SECOND)) == 1)
    (container,) = docker_harness.containers()
    assert container["Names"] == [f"/{container_id}"]


async def test_stop_after_the_last_read_of_a_start_prevents_the_run(
    docker_harness: DockerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    container_id = await ended_bot(docker_harness)
    backend, other = await docker_harness.open_backend(), await docker_harness.open_backend()
    renamed: list[str] = []
    rename = Daemon.rename

    async def rename_and_let_stop(daemon: Daemon, container: Container, name: str) -> None:
        await rename(daemon, container, name)
        if not renamed:
            renamed.append(name)
            await other.stop(container_id, SECOND, timeout_s=TIMEOUT_S)

    monkeypatch.setattr(Daemon, "rename", rename_and_let_stop)
    request = start_request(docker_harness, container_id, SECOND)
    with pytest.raises(StartSuperseded):
        await backend.start(request, timeout_s=TIMEOUT_S)
    assert renamed == [container_id]
    assert (await observe(other, container_id)).state is ContainerState.STOPPED
    assert docker_harness.runs(SECOND) == []
