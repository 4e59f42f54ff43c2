"""The containers of one slot after crashes and concurrent calls."""

import time
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from aiodocker import DockerError
from aiodocker.docker import DockerContainer

from botpool.backends.docker import slot_containers
from botpool.backends.docker.connection import Connection
from botpool.backends.docker.daemon import ConcurrentChange, Daemon
from botpool.backends.docker.placeholder_image import IMAGE as PLACEHOLDER_IMAGE
from botpool.backends.docker.slot_containers import ContainerDraft, ContainerKind
from botpool.domain.errors import (
    BackendRefused,
    BackendUnavailable,
    StartSuperseded,
    StillRunning,
)
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import ContainerState
from tests.backends.docker_harness import DockerHarness
from tests.backends.harness import (
    SPEC,
    TIMEOUT_S,
    observe,
    start_and_wait,
    start_request,
    wait_until_down,
)
from tests.support.fences import NO_ASSIGNMENT

FIRST, SECOND = AssignmentId(11), AssignmentId(12)


def create_leftover(
    harness: DockerHarness, container_id: ContainerId, kind: ContainerKind, number: int
) -> None:
    """Create a container as a replica that was killed afterwards."""
    draft = ContainerDraft(kind=kind, assignment_id=AssignmentId(number), spec=SPEC)
    body = {
        "Image": SPEC.image if kind is ContainerKind.BOT else PLACEHOLDER_IMAGE,
        "Cmd": ["x"],
        "Labels": dict(draft.labels(harness.installation())),
    }
    name = f"{container_id}.left.{kind}.{number}"
    harness.dockerd.call("POST", "/containers/create", body, name=name)


def container_kinds(harness: DockerHarness) -> list[tuple[str, str]]:
    """Return kind and assignment of each container."""
    labels = [each["Labels"] for each in harness.containers()]
    return sorted((each["botpool.kind"], each["botpool.assignment"]) for each in labels)


async def test_superseded_start_removes_its_container(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.open_backend()
    container_id = await backend.ensure(SPEC, stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S)
    create_leftover(docker_harness, container_id, ContainerKind.BOT, FIRST)
    create_leftover(docker_harness, container_id, ContainerKind.PLACEHOLDER, FIRST)
    with pytest.raises(StartSuperseded, match="was stopped"):
        await backend.start(start_request(docker_harness, container_id, FIRST), timeout_s=TIMEOUT_S)
    assert ("bot", str(FIRST)) not in container_kinds(docker_harness)


async def test_stop_before_start_leaves_one_placeholder(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.open_backend()
    container_id = await backend.ensure(SPEC, stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S)
    create_leftover(docker_harness, container_id, ContainerKind.BOT, FIRST)
    await backend.stop(container_id, FIRST, timeout_s=TIMEOUT_S)
    assert container_kinds(docker_harness) == [("placeholder", str(FIRST))]


async def test_late_stop_removes_unstarted_container_of_its_assignment(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.open_backend()
    container_id = await backend.ensure(SPEC, stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S)
    create_leftover(docker_harness, container_id, ContainerKind.BOT, FIRST)
    create_leftover(docker_harness, container_id, ContainerKind.PENDING, SECOND)
    await backend.stop(container_id, FIRST, timeout_s=TIMEOUT_S)
    assert ("bot", str(FIRST)) not in container_kinds(docker_harness)
    assert ("pending", str(SECOND)) in container_kinds(docker_harness)


async def test_fence_survives_change_of_spec(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.open_backend()
    container_id = await backend.ensure(SPEC, stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S)
    await backend.stop(container_id, FIRST, timeout_s=TIMEOUT_S)
    await backend.ensure(
        replace(SPEC, memory_mb=64), stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S
    )
    with pytest.raises(StartSuperseded, match="was stopped"):
        await backend.start(start_request(docker_harness, container_id, FIRST), timeout_s=TIMEOUT_S)


async def test_late_stop_does_not_touch_next_bot(docker_harness: DockerHarness) -> None:
    backend = await docker_harness.open_backend()
    container_id = await start_and_wait(docker_harness, backend, SECOND)
    await backend.stop(container_id, FIRST, timeout_s=TIMEOUT_S)
    assert (await observe(backend, container_id)).state is ContainerState.RUNNING
    assert container_kinds(docker_harness) == [("bot", str(SECOND))]


async def test_late_stop_does_not_wait_for_next_bot(
    docker_harness: DockerHarness,
) -> None:
    """The stop of the next bot created its placeholder and crashed."""
    backend = await docker_harness.open_backend()
    container_id = await start_and_wait(docker_harness, backend, SECOND)
    create_leftover(docker_harness, container_id, ContainerKind.PLACEHOLDER, SECOND)
    await backend.stop(container_id, FIRST, timeout_s=5)
    assert (await observe(backend, container_id)).state is ContainerState.RUNNING


async def test_late_start_is_superseded_by_next_bot(docker_harness: DockerHarness) -> None:
    backend = await docker_harness.open_backend()
    container_id = await start_and_wait(docker_harness, backend, SECOND, "exit 0")
    await wait_until_down(backend, container_id)
    with pytest.raises(StartSuperseded, match="now serves assignment 12"):
        await backend.start(start_request(docker_harness, container_id, FIRST), timeout_s=TIMEOUT_S)
    assert container_kinds(docker_harness) == [("bot", str(SECOND))]


@pytest.mark.parametrize("behaviour", [pytest.param("run", marks=pytest.mark.long), "exit 0"])
async def test_duplicate_bot_container_never_runs(
    docker_harness: DockerHarness, behaviour: str
) -> None:
    backend = await docker_harness.open_backend()
    container_id = await start_and_wait(docker_harness, backend, FIRST, behaviour)
    if behaviour != "run":
        await wait_until_down(backend, container_id)
    create_leftover(docker_harness, container_id, ContainerKind.BOT, FIRST)
    expected = ContainerState.RUNNING if behaviour == "run" else ContainerState.EXITED
    assert (await observe(backend, container_id)).state is expected
    await backend.start(start_request(docker_harness, container_id, FIRST), timeout_s=TIMEOUT_S)
    assert container_kinds(docker_harness) == [("bot", str(FIRST))]
    assert len(docker_harness.runs(FIRST)) == 1


async def test_paused_container_counts_as_running(docker_harness: DockerHarness) -> None:
    backend = await docker_harness.open_backend()
    container_id = await start_and_wait(docker_harness, backend, FIRST)
    docker_harness.dockerd.call("POST", f"/containers/{container_id}/pause")
    assert (await observe(backend, container_id)).state is ContainerState.RUNNING
    with pytest.raises(StartSuperseded, match="assignment 11 still runs"):
        await backend.start(
            start_request(docker_harness, container_id, SECOND), timeout_s=TIMEOUT_S
        )
    docker_harness.dockerd.call("POST", f"/containers/{container_id}/unpause")


async def test_ensure_raises_while_container_keeps_running(docker_harness: DockerHarness) -> None:
    backend = await docker_harness.open_backend()
    await start_and_wait(docker_harness, backend, FIRST)
    with (
        mock.patch.object(DockerContainer, "stop", mock.AsyncMock()),
        pytest.raises(StillRunning),
    ):
        await backend.ensure(SPEC, stop_through=FIRST, timeout_s=TIMEOUT_S)


async def test_concurrently_replaced_container_is_unknown(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.open_backend()
    container_id = await start_and_wait(docker_harness, backend, FIRST, "exit 0")
    await wait_until_down(backend, container_id)
    with mock.patch.object(Daemon, "container_state", mock.AsyncMock(side_effect=ConcurrentChange)):
        assert (await observe(backend, container_id)).state is ContainerState.UNKNOWN


async def test_no_request_is_sent_after_the_deadline(docker_harness: DockerHarness) -> None:
    config = docker_harness.config()
    late = Daemon(
        connection=Connection(config), config=config, call="start", ends_at=time.monotonic()
    )
    with pytest.raises(BackendUnavailable, match="start did not end in time"):
        await late.list_slots()
    assert docker_harness.socket.connections == 0


async def test_hanging_daemon_is_unavailable(docker_harness: DockerHarness) -> None:
    backend = await docker_harness.open_backend()
    container_id = await start_and_wait(docker_harness, backend, FIRST)
    docker_harness.socket.hang()
    with pytest.raises(BackendUnavailable, match="observe did not end within"):
        await backend.observe([container_id], timeout_s=0.2)


async def test_truncated_response_is_unavailable(docker_harness: DockerHarness) -> None:
    backend = await docker_harness.open_backend()
    container_id = await start_and_wait(docker_harness, backend, FIRST)
    with docker_harness.socket.truncated_responses(), pytest.raises(BackendUnavailable):
        await observe(backend, container_id)
    with docker_harness.socket.truncated_responses(), pytest.raises(BackendUnavailable):
        await backend.list_owned(timeout_s=TIMEOUT_S)
    assert (await observe(backend, container_id)).state is ContainerState.RUNNING


async def test_running_container_listed_as_exited_is_not_removed(
    docker_harness: DockerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = await docker_harness.open_backend()
    container_id = await start_and_wait(docker_harness, backend, FIRST)
    read = slot_containers.parse_container

    def mistaken(listed: Any) -> slot_containers.Container | None:
        return read({**listed, "State": listed["State"].replace("running", "exited")})

    with monkeypatch.context() as patch:
        patch.setattr("botpool.backends.docker.daemon.parse_container", mistaken)
        with pytest.raises(BackendUnavailable, match="start did not end"):
            await backend.start(start_request(docker_harness, container_id, SECOND), timeout_s=0.5)
    assert (await observe(backend, container_id)).assignment_id == FIRST
    assert not docker_harness.runs(SECOND)


@pytest.mark.parametrize(
    ("step", "status", "message"),
    [
        ("start", 404, "No such container: abc"),
        ("start", 409, "container is marked for removal and cannot be started"),
        ("rename", 400, "Renaming a container with the same name as its current name"),
        ("delete", 409, "removal of container abc is already in progress"),
        ("delete", 500, "unable to remove filesystem for abc: directory not empty"),
    ],
)
async def test_step_is_repeated_after_concurrent_change(
    docker_harness: DockerHarness, step: str, status: int, message: str
) -> None:
    backend = await docker_harness.open_backend()
    container_id = await backend.ensure(SPEC, stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S)
    taken = getattr(DockerContainer, step)
    failures = []

    async def fails_once(container: DockerContainer, *arguments: Any, **options: Any) -> Any:
        if not failures:
            failures.append(container)
            raise DockerError(status, message)
        return await taken(container, *arguments, **options)

    with mock.patch.object(DockerContainer, step, fails_once):
        await backend.start(start_request(docker_harness, container_id, FIRST), timeout_s=TIMEOUT_S)
    assert failures
    assert container_kinds(docker_harness) == [("bot", str(FIRST))]


@pytest.mark.parametrize("name", ["a.b", "-a", "a/b", ""])
async def test_invalid_slot_name_is_refused(docker_harness: DockerHarness, name: str) -> None:
    backend = await docker_harness.open_backend()
    with pytest.raises(BackendRefused, match="not a valid container name"):
        await backend.ensure(
            replace(SPEC, name=name), stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S
        )
