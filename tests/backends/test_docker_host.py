"""Docker only: limits, volumes, networks, a lagging list and foreign containers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from botpool.backends.docker import DockerBackend, slot_containers
from botpool.domain.errors import BackendRefused
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import ContainerState
from tests.backends.docker_harness import DockerHarness
from tests.backends.harness import (
    SPEC,
    TIMEOUT_S,
    observe,
    start_and_wait,
    start_request,
    wait_for_state,
    wait_until_down,
)
from tests.support.fences import ANY_ASSIGNMENT, NO_ASSIGNMENT

FIRST, SECOND = AssignmentId(11), AssignmentId(12)
PROGRAM = Path(__file__).with_name("container_program.py")


def inspected(harness: DockerHarness, container_id: ContainerId) -> Any:
    return harness.dockerd.call("GET", f"/containers/{container_id}/json")


async def test_container_has_limits_and_name_of_slot(
    docker_harness: DockerHarness,
) -> None:
    container_id = await start_and_wait(docker_harness, await docker_harness.open_backend(), FIRST)
    shown = inspected(docker_harness, container_id)
    assert shown["Name"] == f"/{docker_harness.installation()}.{SPEC.name}"
    limits = shown["HostConfig"]
    assert limits["NanoCpus"] == 1_000_000_000
    assert limits["Memory"] == limits["MemorySwap"] == 2048 * 1024 * 1024
    assert limits["PidsLimit"] == docker_harness.config().pids_limit
    assert limits["ShmSize"] == docker_harness.config().shm_mb * 1024 * 1024
    assert limits["RestartPolicy"]["Name"] == "no"
    assert limits["NetworkMode"] == docker_harness.config().network


async def test_next_bot_gets_changed_limit(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.open_backend()
    container_id = await start_and_wait(docker_harness, backend, FIRST)
    assert (
        await backend.ensure(replace(SPEC, memory_mb=64), stop_through=FIRST, timeout_s=TIMEOUT_S)
        == container_id
    )
    await backend.start(start_request(docker_harness, container_id, SECOND), timeout_s=TIMEOUT_S)
    assert inspected(docker_harness, container_id)["HostConfig"]["Memory"] == 64 * 1024 * 1024
    assert len(docker_harness.containers()) == 1


async def test_volumes_are_removed_with_their_container(docker_harness: DockerHarness) -> None:
    dockerd, backend = docker_harness.dockerd, await docker_harness.open_backend()
    created = dockerd.call("POST", "/containers/create", {"Image": SPEC.image})["Id"]
    committed = {"container": created, "repo": "bot", "tag": "volume", "changes": "VOLUME /kept"}
    dockerd.call("POST", "/commit", **committed)
    dockerd.call("DELETE", f"/containers/{created}")
    before = dockerd.call("GET", "/volumes")["Volumes"] or []
    with_volume = replace(SPEC, image="bot:volume")
    container_id = await backend.ensure(
        with_volume, stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S
    )
    for number in (FIRST, SECOND):
        request = start_request(docker_harness, container_id, number, "exit 0")
        await backend.start(request, timeout_s=TIMEOUT_S)
        await wait_until_down(backend, container_id)
    assert len(dockerd.call("GET", "/volumes")["Volumes"]) == len(before) + 1
    await backend.delete(container_id, stop_through=ANY_ASSIGNMENT, timeout_s=TIMEOUT_S)
    assert (dockerd.call("GET", "/volumes")["Volumes"] or []) == before


async def test_stopped_bot_gets_sigterm(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.open_backend()
    container_id = await start_and_wait(docker_harness, backend, FIRST)
    await backend.stop(container_id, FIRST, timeout_s=TIMEOUT_S)
    observation = await wait_until_down(backend, container_id)
    assert (observation.exit_code, observation.detail) == (143, "killed by SIGTERM")
    assert observation.assignment_id == FIRST


async def test_missing_network_names_its_setting(
    docker_harness: DockerHarness,
) -> None:
    backend = DockerBackend(replace(docker_harness.config(), network="nowhere"))
    try:
        health = await backend.check(timeout_s=TIMEOUT_S)
        assert (health.ok, health.detail[:23]) == (False, "backends.docker.network")
        container_id = await backend.ensure(SPEC, stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S)
        with pytest.raises(BackendRefused, match=r"^backends\.docker\.network: "):
            await backend.start(
                start_request(docker_harness, container_id, FIRST), timeout_s=TIMEOUT_S
            )
    finally:
        await backend.close()


async def test_out_of_memory_is_the_exit_reason(docker_harness: DockerHarness) -> None:
    backend = await docker_harness.open_backend()
    container_id = await backend.ensure(
        replace(SPEC, memory_mb=48), stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S
    )
    request = start_request(docker_harness, container_id, FIRST, "use-memory")
    await backend.start(request, timeout_s=TIMEOUT_S)
    observation = await wait_for_state(backend, container_id, ContainerState.EXITED)
    assert observation.detail == "ran out of memory (48 MB)"


async def test_lagging_list_does_not_hide_an_exit(
    docker_harness: DockerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = await docker_harness.open_backend()
    container_id = await start_and_wait(docker_harness, backend, FIRST, "exit 0")
    await wait_until_down(backend, container_id)
    read = slot_containers.parse_container

    def lagging(listed: Any) -> slot_containers.Container | None:
        return read({**listed, "State": "running"})

    monkeypatch.setattr("botpool.backends.docker.daemon.parse_container", lagging)
    assert (await observe(backend, container_id)).state is ContainerState.EXITED
    assert (
        await backend.ensure(SPEC, stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S) == container_id
    )


async def test_foreign_container_with_the_name_is_left_alone(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.open_backend()
    name = f"{docker_harness.installation()}.{SPEC.name}"
    foreign = docker_harness.dockerd.call(
        "POST", "/containers/create", {"Image": SPEC.image}, name=name
    )["Id"]
    try:
        with pytest.raises(BackendRefused, match="without Botpool's label"):
            await backend.ensure(SPEC, stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S)
        assert inspected(docker_harness, ContainerId(name))["Id"] == foreign
    finally:
        docker_harness.dockerd.call("DELETE", f"/containers/{foreign}")


async def test_ensure_removes_duplicates_after_a_crash(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.open_backend()
    container_id = await start_and_wait(docker_harness, backend, FIRST, "exit 0")
    await wait_until_down(backend, container_id)
    await docker_harness.duplicate(container_id)
    assert (
        await backend.ensure(SPEC, stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S) == container_id
    )
    (left,) = docker_harness.containers()
    assert left["Names"] == [f"/{container_id}"]
    assert left["Labels"]["botpool.assignment"] == str(FIRST)


async def test_image_that_cannot_run_names_its_setting(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.open_backend()
    container_id = await backend.ensure(
        replace(SPEC, image="botpool/placeholder:1"),
        stop_through=NO_ASSIGNMENT,
        timeout_s=TIMEOUT_S,
    )
    with pytest.raises(BackendRefused, match=r"^pools\.teams"):
        await backend.start(start_request(docker_harness, container_id, FIRST), timeout_s=TIMEOUT_S)
    await backend.stop(container_id, FIRST, timeout_s=TIMEOUT_S)
    assert (await observe(backend, container_id)).state is ContainerState.STOPPED
