"""What only Docker has: limits, events, images that are pulled, daemons that are far away."""

import asyncio
import fcntl
import json
import secrets
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from docker_harness import DockerHarness
from harness import SPEC, TIMEOUT_S, eventually, look, order, running, seen, seen_down

from botpool.backends.docker import DockerBackend, places
from botpool.backends.protocol import ContainerSpec
from botpool.domain.errors import BackendRefused, BudgetSpent
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import ContainerState, DeploymentState

from docker_host import publish
from registry import Registry

FIRST, SECOND = AssignmentId(11), AssignmentId(12)
PROGRAM = Path(__file__).with_name("container_program.py")


def inspected(harness: DockerHarness, container_id: ContainerId) -> Any:
    return harness.dockerd.ask("GET", f"/containers/{container_id}/json")


def pulled_spec(image: str) -> ContainerSpec:
    return replace(SPEC, image=image)


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
    assert limits["RestartPolicy"]["Name"] == "no"


async def test_a_changed_image_or_limit_is_taken_by_the_next_bot(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.control_plane()
    container_id = await running(docker_harness, backend, FIRST)
    assert await backend.ensure(replace(SPEC, memory_mb=64), timeout_s=TIMEOUT_S) == container_id
    await backend.start(order(docker_harness, container_id, SECOND), timeout_s=TIMEOUT_S)
    assert inspected(docker_harness, container_id)["HostConfig"]["Memory"] == 64 * 1024 * 1024
    assert len(docker_harness.containers()) == 1


async def test_memory_that_runs_out_is_the_reason(docker_harness: DockerHarness) -> None:
    backend = await docker_harness.control_plane()
    container_id = await backend.ensure(replace(SPEC, memory_mb=48), timeout_s=TIMEOUT_S)
    hungry = order(docker_harness, container_id, FIRST, "hungry")
    await backend.start(hungry, timeout_s=TIMEOUT_S)
    observation = await seen(backend, container_id, ContainerState.EXITED)
    assert observation.detail == "ran out of memory (48 MB)"


async def test_the_daemon_tells_when_a_container_ends(docker_harness: DockerHarness) -> None:
    backend = await docker_harness.control_plane()
    hints: list[ContainerId] = []

    async def listen() -> None:
        async for container_id in backend.changes():
            hints.insert(0, container_id)

    listening = asyncio.create_task(listen())
    try:
        container_id = await running(docker_harness, backend, FIRST)
        docker_harness.dockerd.ask("POST", f"/containers/{container_id}/kill")
        await eventually(lambda: container_id in hints)
        assert (await look(backend, container_id)).state is ContainerState.EXITED
        with docker_harness.outage():
            hints.clear()
        await eventually(lambda: container_id in hints)
    finally:
        listening.cancel()
        with suppress(asyncio.CancelledError):
            await listening


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


async def test_a_control_plane_killed_in_the_middle_of_a_pull_causes_no_second_pull(
    docker_harness: DockerHarness, registry: Registry
) -> None:
    image = publish(docker_harness.dockerd, registry, secrets.token_hex(4), PROGRAM)
    backend = await docker_harness.control_plane()
    container_id = await backend.ensure(pulled_spec(image), timeout_s=TIMEOUT_S)
    wanted = order(docker_harness, container_id, FIRST)
    registry.gate.hold()
    dying = begin_start(docker_harness, container_id, wanted.environment)
    try:
        await eventually(registry.gate.waiting.is_set, within_s=60)
    finally:
        dying.send_signal(signal.SIGKILL)
        dying.wait()
    with pytest.raises(BudgetSpent, match="is being pulled"):
        await backend.start(wanted, timeout_s=3)
    observation = await look(backend, container_id)
    assert observation.deployment is DeploymentState.IN_PROGRESS
    assert observation.state is ContainerState.STARTING
    registry.gate.release()
    await started(backend, docker_harness, container_id)
    assert len(docker_harness.runs(FIRST)) == 1
    assert registry.asked_for(image.rpartition(":")[2]) == 1
    assert set(registry.fetched().values()) == {1}, registry.fetched()


async def test_a_second_puller_on_a_machine_waits_for_the_first(
    docker_harness: DockerHarness, tmp_path: Path
) -> None:
    lock = tmp_path / "lock"
    told = {"image": SPEC.image, "host": docker_harness.dockerd.host, "lock": str(lock)}
    with lock.open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        second = subprocess.Popen(
            [sys.executable, "-m", "botpool.backends.docker.puller", json.dumps(told)]
        )
        inode = f":{lock.stat().st_ino} "

        def waits() -> bool:
            locks = Path("/proc/locks").read_text().splitlines()
            return any("->" in line and inode in line for line in locks)

        try:
            await eventually(waits, within_s=60)
        finally:
            fcntl.flock(first, fcntl.LOCK_UN)
            assert await asyncio.to_thread(second.wait, 30) == 0


async def test_a_bot_that_is_stopped_while_its_image_comes_never_runs(
    docker_harness: DockerHarness, registry: Registry
) -> None:
    image = publish(docker_harness.dockerd, registry, secrets.token_hex(4), PROGRAM)
    backend = await docker_harness.control_plane()
    container_id = await backend.ensure(pulled_spec(image), timeout_s=TIMEOUT_S)
    registry.gate.hold()
    starting = asyncio.create_task(
        backend.start(order(docker_harness, container_id, FIRST), timeout_s=60)
    )
    await eventually(registry.gate.waiting.is_set, within_s=60)
    await backend.stop(container_id, FIRST, timeout_s=TIMEOUT_S)
    assert (await look(backend, container_id)).state is ContainerState.STOPPED
    registry.gate.release()
    with pytest.raises(Exception, match="was stopped"):
        await starting
    assert not docker_harness.runs(FIRST)


def begin_start(
    harness: DockerHarness, container_id: ContainerId, environment: Any
) -> subprocess.Popen[bytes]:
    config = asdict(harness.config()) | {
        "folder": str(harness.config().folder),
        "host": harness.dockerd.host,
    }
    told = {
        "config": config,
        "container_id": container_id,
        "assignment_id": FIRST,
        "environment": dict(environment),
    }
    program = Path(__file__).with_name("dying_docker.py")
    return subprocess.Popen([sys.executable, str(program), json.dumps(told)])


async def started(
    backend: DockerBackend, harness: DockerHarness, container_id: ContainerId
) -> None:
    for _ in range(20):
        try:
            await backend.start(order(harness, container_id, FIRST), timeout_s=TIMEOUT_S)
            break
        except BudgetSpent as spent:
            await asyncio.sleep(spent.retry_after_s)
    await eventually(lambda: harness.runs(FIRST))
