"""Failed removals of containers, and removals during a rename."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from aiodocker import DockerError
from aiodocker.docker import DockerContainer

from botpool.backends.docker.placeholder_image import IMAGE as PLACEHOLDER_IMAGE
from botpool.backends.docker.slot_containers import ContainerDraft, ContainerKind
from botpool.domain.errors import BackendUnavailable, StartSuperseded
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import ContainerState
from tests.backends.docker_harness import DockerHarness
from tests.backends.harness import SPEC, TIMEOUT_S, observe, start_request
from tests.support.fences import ANY_ASSIGNMENT, NO_ASSIGNMENT

SOON_S = 5.0
ATTEMPTS = 100
FIRST, SECOND = AssignmentId(11), AssignmentId(12)


@contextmanager
def files_recreated(folder: Path) -> Iterator[None]:
    """Write into the folder while Docker removes it, as a rename does."""
    is_over = threading.Event()

    def write() -> None:
        number = 0
        with suppress(FileNotFoundError):
            while not is_over.is_set():
                (folder / str(number)).touch()
                number += 1

    thread = threading.Thread(target=write)
    thread.start()
    yield
    is_over.set()
    thread.join()


def fail_removal(harness: DockerHarness, kind: ContainerKind, number: int, name: str) -> None:
    """Create a container whose removal fails, so that Docker shows it as `removing` for ever."""
    dockerd = harness.dockerd
    draft = ContainerDraft(kind=kind, assignment_id=AssignmentId(number), spec=SPEC)
    body = {
        "Image": PLACEHOLDER_IMAGE,
        "Cmd": ["x"],
        "Labels": dict(draft.labels(harness.installation())),
    }
    for _ in range(ATTEMPTS):
        docker_id = dockerd.call("POST", "/containers/create", body, name=name)["Id"]
        with files_recreated(dockerd.directory / "data" / "containers" / docker_id):
            status, _said = dockerd.request("DELETE", f"/containers/{docker_id}")
        if status == 500:
            break
    assert [each["State"] for each in harness.containers() if each["Id"] == docker_id] == [
        "removing"
    ]


def names(harness: DockerHarness) -> list[str]:
    return [name for each in harness.containers() for name in each["Names"]]


async def slot_with_failed_removal(harness: DockerHarness) -> ContainerId:
    """A slot whose name is taken by a failed removal, with its fence in another container."""
    backend = await harness.open_backend()
    container_id = await backend.ensure(SPEC, stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S)
    await backend.delete(container_id, stop_through=ANY_ASSIGNMENT, timeout_s=TIMEOUT_S)
    await harness.duplicate(container_id)
    fail_removal(harness, ContainerKind.BOT, FIRST, container_id)
    return container_id


@pytest.mark.parametrize("act", ["stop", "start", "ensure"])
async def test_failed_removal_does_not_block_calls(docker_harness: DockerHarness, act: str) -> None:
    container_id = await slot_with_failed_removal(docker_harness)
    backend = await docker_harness.open_backend()
    if act == "stop":
        await backend.stop(container_id, SECOND, timeout_s=SOON_S)
    elif act == "start":
        await backend.start(start_request(docker_harness, container_id, SECOND), timeout_s=SOON_S)
    else:
        assert (
            await backend.ensure(SPEC, stop_through=NO_ASSIGNMENT, timeout_s=SOON_S) == container_id
        )
    assert names(docker_harness) == [f"/{container_id}"]


async def test_delete_finishes_failed_removal(docker_harness: DockerHarness) -> None:
    container_id = await slot_with_failed_removal(docker_harness)
    backend = await docker_harness.open_backend()
    await backend.delete(container_id, stop_through=ANY_ASSIGNMENT, timeout_s=TIMEOUT_S)
    assert not docker_harness.containers()


async def test_ensure_creates_container_after_failed_removal(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.open_backend()
    container_id = await backend.ensure(SPEC, stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S)
    await backend.delete(container_id, stop_through=ANY_ASSIGNMENT, timeout_s=TIMEOUT_S)
    fail_removal(docker_harness, ContainerKind.PLACEHOLDER, 0, container_id)
    assert await backend.ensure(SPEC, stop_through=NO_ASSIGNMENT, timeout_s=SOON_S) == container_id
    assert (await observe(backend, container_id)).state is ContainerState.STOPPED


async def test_error_of_failed_removal_is_reported(docker_harness: DockerHarness) -> None:
    await slot_with_failed_removal(docker_harness)
    backend = await docker_harness.open_backend()
    message = "unable to remove filesystem: input/output error"
    with (
        mock.patch.object(DockerContainer, "delete", side_effect=DockerError(500, message)),
        pytest.raises(BackendUnavailable, match="input/output error"),
    ):
        await backend.ensure(SPEC, stop_through=NO_ASSIGNMENT, timeout_s=SOON_S)


async def test_stop_during_rename_supersedes_the_start(
    docker_harness: DockerHarness,
) -> None:
    backend, replica = await docker_harness.open_backend(), await docker_harness.open_backend()
    container_id = await backend.ensure(SPEC, stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S)
    rename = DockerContainer.rename
    removed = []

    async def loses_its_folder(container: DockerContainer, name: str) -> Any:
        if removed:
            return await rename(container, name)
        removed.append(container)
        await replica.stop(container_id, FIRST, timeout_s=TIMEOUT_S)
        raise DockerError(500, "open .tmp-config.v2.json2221245850: no such file or directory")

    with (
        mock.patch.object(DockerContainer, "rename", loses_its_folder),
        pytest.raises(StartSuperseded, match="was stopped"),
    ):
        await backend.start(start_request(docker_harness, container_id, FIRST), timeout_s=TIMEOUT_S)
    assert removed
    assert names(docker_harness) == [f"/{container_id}"]


async def test_failed_rename_is_unavailable(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.open_backend()
    container_id = await backend.ensure(SPEC, stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S)
    with (
        mock.patch.object(DockerContainer, "rename", side_effect=DockerError(500, "disk error")),
        pytest.raises(BackendUnavailable, match="disk error"),
    ):
        await backend.stop(container_id, FIRST, timeout_s=TIMEOUT_S)
