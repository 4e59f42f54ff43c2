"""Docker only: limits, volumes, networks, a lagging list and foreign containers."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from botpool.backends.docker import DockerBackend, slot_containers
from botpool.backends.protocol import ContainerSpec
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


async def test_container_gains_no_privileges_and_has_limited_output(
    docker_harness: DockerHarness,
) -> None:
    container_id = await start_and_wait(docker_harness, await docker_harness.open_backend(), FIRST)
    shown = inspected(docker_harness, container_id)["HostConfig"]
    assert shown["SecurityOpt"] == ["no-new-privileges:true"]
    assert shown["LogConfig"]["Type"] == "json-file"
    assert shown["LogConfig"]["Config"] == {"max-size": "25600k", "max-file": "2"}
    status = process_status(docker_harness, container_id)
    assert status["NoNewPrivs"] == "1"
    assert {status[name] for name in ("CapEff", "CapPrm", "CapBnd")} == {"0" * 16}


async def test_pool_keeps_the_capabilities_that_it_asks_for(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.open_isolated(network="host", capabilities=("NET_RAW",))
    container_id = await start_and_wait(docker_harness, backend, FIRST)
    status = process_status(docker_harness, container_id)
    assert int(status["CapEff"], 16) == 1 << 13  # CAP_NET_RAW


async def test_read_only_container_writes_to_its_tmp_only(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.open_isolated(network="host", read_only=True)
    container_id = await start_next(docker_harness, backend, FIRST)
    await wait_for_state(backend, container_id, ContainerState.EXITED)
    shown = inspected(docker_harness, container_id)["HostConfig"]
    assert shown["ReadonlyRootfs"] is True
    assert shown["Tmpfs"] == {"/tmp": "rw,nosuid,nodev,mode=1777,size=256m"}
    output = await logs_of(backend, container_id, FIRST)
    assert "Read-only file system: 'left-behind'" in output


async def test_each_pool_gets_its_own_network(docker_harness: DockerHarness) -> None:
    """The containers run in real networks. This daemon has no firewall, which would part them."""
    backend = await docker_harness.open_isolated()
    zoom = replace(SPEC, name="pool-zoom-001", pool_name="zoom")
    installation = docker_harness.installation()
    subnets = set()
    for spec, assignment in ((SPEC, FIRST), (zoom, SECOND)):
        container_id = await start_next(docker_harness, backend, assignment, spec)
        name = f"botpool-{installation}-{spec.pool_name}"
        assert list(inspected(docker_harness, container_id)["NetworkSettings"]["Networks"]) == [
            name
        ]
        shown = docker_harness.dockerd.call("GET", f"/networks/{name}")
        assert shown["Options"]["com.docker.network.bridge.enable_icc"] == "false"
        subnets.add(shown["IPAM"]["Config"][0]["Subnet"])
    assert len(subnets) == 2


async def test_next_bot_of_a_pool_uses_the_same_network(docker_harness: DockerHarness) -> None:
    used = set()
    for assignment in (FIRST, SECOND):
        backend = await docker_harness.open_isolated()
        container_id = await start_next(docker_harness, backend, assignment)
        used.add(inspected(docker_harness, container_id)["HostConfig"]["NetworkMode"])
        await backend.stop(container_id, assignment, timeout_s=TIMEOUT_S)
        await wait_until_down(backend, container_id)
    assert len(used) == 1


async def test_oldest_of_two_networks_of_a_pool_is_used(docker_harness: DockerHarness) -> None:
    """Two replicas that create it at the same time may leave two networks with one name."""
    installation = docker_harness.installation()
    body = {
        "Name": f"twice-{installation}",
        "Labels": {"botpool.installation": installation, "botpool.pool": SPEC.pool_name},
    }
    ids = [docker_harness.dockerd.call("POST", "/networks/create", body)["Id"] for _ in range(2)]
    backend = await docker_harness.open_isolated()
    container_id = await start_next(docker_harness, backend, FIRST)
    assert inspected(docker_harness, container_id)["HostConfig"]["NetworkMode"] == ids[0]


async def test_foreign_network_with_the_name_of_a_pool_is_not_used(
    docker_harness: DockerHarness,
) -> None:
    name = f"botpool-{docker_harness.installation()}-{SPEC.pool_name}"
    docker_harness.dockerd.call("POST", "/networks/create", {"Name": name})
    try:
        backend = await docker_harness.open_isolated()
        with pytest.raises(BackendRefused, match=r"^backends\.docker\.network: .*labels"):
            await start_next(docker_harness, backend, FIRST)
    finally:
        docker_harness.dockerd.call("DELETE", f"/networks/{name}")


async def start_next(
    harness: DockerHarness,
    backend: DockerBackend,
    assignment_id: AssignmentId,
    spec: ContainerSpec = SPEC,
) -> ContainerId:
    """Start the next assignment without waiting for the report of its program."""
    through = AssignmentId(assignment_id - 1)
    container_id = await backend.ensure(spec, stop_through=through, timeout_s=TIMEOUT_S)
    request = start_request(harness, container_id, assignment_id)
    await backend.start(request, timeout_s=TIMEOUT_S)
    return container_id


async def logs_of(
    backend: DockerBackend, container_id: ContainerId, assignment_id: AssignmentId
) -> str:
    chunks = backend.logs(container_id, assignment_id, tail=None, follow=False)
    return b"".join([chunk async for chunk in chunks]).decode()


def process_of(harness: DockerHarness, container_id: ContainerId) -> int:
    return int(inspected(harness, container_id)["State"]["Pid"])


def process_status(harness: DockerHarness, container_id: ContainerId) -> dict[str, str]:
    """Return the fields of /proc/<pid>/status of the container's first process."""
    text = Path(f"/proc/{process_of(harness, container_id)}/status").read_text()
    return {name: value.strip() for name, _, value in (x.partition(":") for x in text.splitlines())}


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
