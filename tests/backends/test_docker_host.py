"""What only Docker has: limits, volumes, networks, a list that lags, names that others took."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from botpool.backends.docker import DockerBackend, places
from botpool.domain.errors import BackendRefused
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import ContainerState
from tests.backends.docker_harness import DockerHarness
from tests.backends.harness import SPEC, TIMEOUT_S, look, order, running, seen, seen_down

FIRST, SECOND = AssignmentId(11), AssignmentId(12)
PROGRAM = Path(__file__).with_name("container_program.py")


def inspected(harness: DockerHarness, container_id: ContainerId) -> Any:
    return harness.dockerd.ask("GET", f"/containers/{container_id}/json")


async def test_a_container_has_its_limits_and_the_slots_name(
    docker_harness: DockerHarness,
) -> None:
    container_id = await running(docker_harness, await docker_harness.control_plane(), FIRST)
    shown = inspected(docker_harness, container_id)
    assert shown["Name"] == f"/{docker_harness.installation()}.{SPEC.name}"
    limits = shown["HostConfig"]
    assert limits["NanoCpus"] == 1_000_000_000
    assert limits["Memory"] == limits["MemorySwap"] == 2048 * 1024 * 1024
    assert limits["PidsLimit"] == docker_harness.config().pids_limit
    assert limits["ShmSize"] == docker_harness.config().shm_mb * 1024 * 1024
    assert limits["RestartPolicy"]["Name"] == "no"
    assert limits["NetworkMode"] == docker_harness.config().network


async def test_a_changed_image_or_limit_is_taken_by_the_next_bot(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.control_plane()
    container_id = await running(docker_harness, backend, FIRST)
    assert await backend.ensure(replace(SPEC, memory_mb=64), timeout_s=TIMEOUT_S) == container_id
    await backend.start(order(docker_harness, container_id, SECOND), timeout_s=TIMEOUT_S)
    assert inspected(docker_harness, container_id)["HostConfig"]["Memory"] == 64 * 1024 * 1024
    assert len(docker_harness.containers()) == 1


async def test_volumes_of_an_image_go_with_their_bot(docker_harness: DockerHarness) -> None:
    """A meeting leaves nothing behind, and no disk fills up."""
    dockerd, backend = docker_harness.dockerd, await docker_harness.control_plane()
    made = dockerd.ask("POST", "/containers/create", {"Image": SPEC.image})["Id"]
    committed = {"container": made, "repo": "bot", "tag": "volume", "changes": "VOLUME /kept"}
    dockerd.ask("POST", "/commit", **committed)
    dockerd.ask("DELETE", f"/containers/{made}")
    before = dockerd.ask("GET", "/volumes")["Volumes"] or []
    with_volume = replace(SPEC, image="bot:volume")
    container_id = await backend.ensure(with_volume, timeout_s=TIMEOUT_S)
    for number in (FIRST, SECOND):
        wanted = order(docker_harness, container_id, number, "exit 0")
        await backend.start(wanted, timeout_s=TIMEOUT_S)
        await seen_down(backend, container_id)
    assert len(dockerd.ask("GET", "/volumes")["Volumes"]) == len(before) + 1
    await backend.delete(container_id, timeout_s=TIMEOUT_S)
    assert (dockerd.ask("GET", "/volumes")["Volumes"] or []) == before


async def test_a_bot_that_is_stopped_has_time_to_say_goodbye(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.control_plane()
    container_id = await running(docker_harness, backend, FIRST)
    await backend.stop(container_id, FIRST, timeout_s=TIMEOUT_S)
    observation = await seen_down(backend, container_id)
    assert (observation.exit_code, observation.detail) == (143, "killed by SIGTERM")
    assert observation.assignment_id == FIRST


async def test_a_network_that_is_not_there_names_its_setting(
    docker_harness: DockerHarness,
) -> None:
    backend = DockerBackend(replace(docker_harness.config(), network="nowhere"))
    try:
        health = await backend.check(timeout_s=TIMEOUT_S)
        assert (health.ok, health.detail[:23]) == (False, "backends.docker.network")
        container_id = await backend.ensure(SPEC, timeout_s=TIMEOUT_S)
        with pytest.raises(BackendRefused, match=r"^backends\.docker\.network: "):
            await backend.start(order(docker_harness, container_id, FIRST), timeout_s=TIMEOUT_S)
    finally:
        await backend.close()


async def test_memory_that_runs_out_is_the_reason(docker_harness: DockerHarness) -> None:
    backend = await docker_harness.control_plane()
    container_id = await backend.ensure(replace(SPEC, memory_mb=48), timeout_s=TIMEOUT_S)
    hungry = order(docker_harness, container_id, FIRST, "hungry")
    await backend.start(hungry, timeout_s=TIMEOUT_S)
    observation = await seen(backend, container_id, ContainerState.EXITED)
    assert observation.detail == "ran out of memory (48 MB)"


async def test_a_list_that_lags_behind_an_end_is_not_believed(
    docker_harness: DockerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = await docker_harness.control_plane()
    container_id = await running(docker_harness, backend, FIRST, "exit 0")
    await seen_down(backend, container_id)
    read = places.read

    def lagging(listed: Any) -> places.Container | None:
        return read({**listed, "State": "running"})

    monkeypatch.setattr(places, "read", lagging)
    assert (await look(backend, container_id)).state is ContainerState.EXITED
    assert await backend.ensure(SPEC, timeout_s=TIMEOUT_S) == container_id


async def test_a_foreign_container_of_that_name_is_left_alone(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.control_plane()
    name = f"{docker_harness.installation()}.{SPEC.name}"
    foreign = docker_harness.dockerd.ask(
        "POST", "/containers/create", {"Image": SPEC.image}, name=name
    )["Id"]
    try:
        with pytest.raises(BackendRefused, match="without our label"):
            await backend.ensure(SPEC, timeout_s=TIMEOUT_S)
        assert inspected(docker_harness, ContainerId(name))["Id"] == foreign
    finally:
        docker_harness.dockerd.ask("DELETE", f"/containers/{foreign}")


async def test_what_a_crash_leaves_beside_a_place_is_cleared_away(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.control_plane()
    container_id = await running(docker_harness, backend, FIRST, "exit 0")
    await seen_down(backend, container_id)
    await docker_harness.duplicate(container_id)
    assert await backend.ensure(SPEC, timeout_s=TIMEOUT_S) == container_id
    (left,) = docker_harness.containers()
    assert left["Names"] == [f"/{container_id}"]
    assert left["Labels"]["botpool.assignment"] == str(FIRST)


async def test_an_image_that_cannot_run_is_refused_by_its_setting(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.control_plane()
    container_id = await backend.ensure(
        replace(SPEC, image="botpool/vacant:1"), timeout_s=TIMEOUT_S
    )
    with pytest.raises(BackendRefused, match=r"^pools\.teams"):
        await backend.start(order(docker_harness, container_id, FIRST), timeout_s=TIMEOUT_S)
    await backend.stop(container_id, FIRST, timeout_s=TIMEOUT_S)
    assert (await look(backend, container_id)).state is ContainerState.STOPPED
