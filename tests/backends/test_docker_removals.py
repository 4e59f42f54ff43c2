"""Removals that Docker did not bring to an end, and renames that they cross."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from aiodocker import DockerError
from aiodocker.docker import DockerContainer

from botpool.backends.docker.places import Draft, Kind
from botpool.backends.docker.vacancy import IMAGE as VACANT
from botpool.domain.errors import BackendUnavailable, StartSuperseded
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import ContainerState
from tests.backends.docker_harness import DockerHarness
from tests.backends.harness import SPEC, TIMEOUT_S, look, order

SOON_S = 5.0
ATTEMPTS = 100
FIRST, SECOND = AssignmentId(11), AssignmentId(12)


@contextmanager
def files_put_back(folder: Path) -> Iterator[None]:
    """As by a rename, which writes into the folder while Docker empties it."""
    is_over = threading.Event()

    def put() -> None:
        number = 0
        with suppress(FileNotFoundError):
            while not is_over.is_set():
                (folder / str(number)).touch()
                number += 1

    thread = threading.Thread(target=put)
    thread.start()
    yield
    is_over.set()
    thread.join()


def remove_halfway(harness: DockerHarness, kind: Kind, number: int, name: str) -> None:
    """What stands there under that name, and Docker shows as being removed for ever."""
    dockerd = harness.dockerd
    draft = Draft(kind=kind, assignment_id=AssignmentId(number), spec=SPEC)
    body = {"Image": VACANT, "Cmd": ["x"], "Labels": dict(draft.labels(harness.installation()))}
    for _ in range(ATTEMPTS):
        docker_id = dockerd.ask("POST", "/containers/create", body, name=name)["Id"]
        with files_put_back(dockerd.directory / "data" / "containers" / docker_id):
            status, _said = dockerd.request("DELETE", f"/containers/{docker_id}")
        if status == 500:
            break
    assert [each["State"] for each in harness.containers() if each["Id"] == docker_id] == [
        "removing"
    ]


def names(harness: DockerHarness) -> list[str]:
    return [name for each in harness.containers() for name in each["Names"]]


async def place_removed_halfway(harness: DockerHarness) -> ContainerId:
    """The place's own name is taken by what is not there any more; its fence stands beside."""
    backend = await harness.control_plane()
    container_id = await backend.ensure(SPEC, timeout_s=TIMEOUT_S)
    await backend.delete(container_id, timeout_s=TIMEOUT_S)
    await harness.duplicate(container_id)
    remove_halfway(harness, Kind.BOT, FIRST, container_id)
    return container_id


@pytest.mark.parametrize("act", ["stop", "start", "ensure"])
async def test_what_was_removed_halfway_blocks_nobody(
    docker_harness: DockerHarness, act: str
) -> None:
    container_id = await place_removed_halfway(docker_harness)
    backend = await docker_harness.control_plane()
    if act == "stop":
        await backend.stop(container_id, SECOND, timeout_s=SOON_S)
    elif act == "start":
        await backend.start(order(docker_harness, container_id, SECOND), timeout_s=SOON_S)
    else:
        assert await backend.ensure(SPEC, timeout_s=SOON_S) == container_id
    assert names(docker_harness) == [f"/{container_id}"]


async def test_what_was_deleted_halfway_is_deleted(docker_harness: DockerHarness) -> None:
    container_id = await place_removed_halfway(docker_harness)
    backend = await docker_harness.control_plane()
    await backend.delete(container_id, timeout_s=TIMEOUT_S)
    assert not docker_harness.containers()


async def test_a_place_of_which_only_that_is_left_is_made_again(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.control_plane()
    container_id = await backend.ensure(SPEC, timeout_s=TIMEOUT_S)
    await backend.delete(container_id, timeout_s=TIMEOUT_S)
    remove_halfway(docker_harness, Kind.VACANT, 0, container_id)
    assert await backend.ensure(SPEC, timeout_s=SOON_S) == container_id
    assert (await look(backend, container_id)).state is ContainerState.STOPPED


async def test_docker_says_why_it_cannot_remove_it(docker_harness: DockerHarness) -> None:
    await place_removed_halfway(docker_harness)
    backend = await docker_harness.control_plane()
    said = "unable to remove filesystem: input/output error"
    with (
        mock.patch.object(DockerContainer, "delete", side_effect=DockerError(500, said)),
        pytest.raises(BackendUnavailable, match="input/output error"),
    ):
        await backend.ensure(SPEC, timeout_s=SOON_S)


async def test_a_start_whose_container_a_stop_removes_while_it_is_renamed_was_stopped(
    docker_harness: DockerHarness,
) -> None:
    backend, replica = await docker_harness.control_plane(), await docker_harness.control_plane()
    container_id = await backend.ensure(SPEC, timeout_s=TIMEOUT_S)
    rename = DockerContainer.rename
    crossed = []

    async def loses_its_folder(container: DockerContainer, name: str) -> Any:
        if crossed:
            return await rename(container, name)
        crossed.append(container)
        await replica.stop(container_id, FIRST, timeout_s=TIMEOUT_S)
        raise DockerError(500, "open .tmp-config.v2.json2221245850: no such file or directory")

    with (
        mock.patch.object(DockerContainer, "rename", loses_its_folder),
        pytest.raises(StartSuperseded, match="was stopped"),
    ):
        await backend.start(order(docker_harness, container_id, FIRST), timeout_s=TIMEOUT_S)
    assert crossed
    assert names(docker_harness) == [f"/{container_id}"]


async def test_a_name_that_docker_cannot_write_down_is_its_trouble(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.control_plane()
    container_id = await backend.ensure(SPEC, timeout_s=TIMEOUT_S)
    with (
        mock.patch.object(DockerContainer, "rename", side_effect=DockerError(500, "disk error")),
        pytest.raises(BackendUnavailable, match="disk error"),
    ):
        await backend.stop(container_id, FIRST, timeout_s=TIMEOUT_S)
