"""Pulls of images: once, in a process that outlives the replica."""

import asyncio
import fcntl
import json
import os
import secrets
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from botpool.backends.docker import DockerBackend
from botpool.backends.protocol import ContainerSpec
from botpool.domain.errors import BackendRefused, BudgetExhausted, StartSuperseded
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import ContainerState, DeploymentState
from tests.backends.docker_harness import DockerHarness
from tests.backends.harness import SPEC, TIMEOUT_S, eventually, observe, start_request
from tests.support.docker_host import publish
from tests.support.fences import NO_ASSIGNMENT
from tests.support.registry import Registry

FIRST, SECOND = AssignmentId(11), AssignmentId(12)
PROGRAM = Path(__file__).with_name("container_program.py")


def pulled_spec(image: str) -> ContainerSpec:
    return replace(SPEC, image=image)


@pytest.mark.long
async def test_invalid_image_name_names_its_setting(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.open_backend()
    container_id = await backend.ensure(
        pulled_spec("No/Name:1"), stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S
    )
    with pytest.raises(BackendRefused, match=r"^pools\.teams\.image: "):
        await backend.start(start_request(docker_harness, container_id, FIRST), timeout_s=60)


async def test_replica_killed_during_pull_causes_no_second_pull(
    docker_harness: DockerHarness, registry: Registry
) -> None:
    image = publish(docker_harness.dockerd, registry, secrets.token_hex(4), PROGRAM)
    backend = await docker_harness.open_backend()
    container_id = await backend.ensure(
        pulled_spec(image), stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S
    )
    request = start_request(docker_harness, container_id, FIRST)
    registry.gate.hold()
    killed = begin_start(docker_harness, container_id, request.environment)
    try:
        await eventually(registry.gate.waiting.is_set, within_s=60)
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
    with pytest.raises(BudgetExhausted, match="is being pulled"):
        await backend.start(request, timeout_s=3)
    observation = await observe(backend, container_id)
    assert observation.deployment is DeploymentState.IN_PROGRESS
    assert observation.state is ContainerState.STARTING
    registry.gate.release()
    await started(backend, docker_harness, container_id)
    assert len(docker_harness.runs(FIRST)) == 1
    assert registry.pulls_started(image.rpartition(":")[2]) == 1
    assert set(registry.fetch_counts().values()) == {1}, registry.fetch_counts()


async def test_second_puller_waits_for_the_first(
    docker_harness: DockerHarness, tmp_path: Path
) -> None:
    lock = tmp_path / "lock"
    job = {"image": SPEC.image, "host": docker_harness.dockerd.host, "lock": str(lock)}
    with lock.open("w") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        second = subprocess.Popen(
            [sys.executable, "-m", "botpool.backends.docker.puller", json.dumps(job)]
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


async def test_bot_stopped_during_pull_never_runs(
    docker_harness: DockerHarness, registry: Registry
) -> None:
    image = publish(docker_harness.dockerd, registry, secrets.token_hex(4), PROGRAM)
    backend = await docker_harness.open_backend()
    container_id = await backend.ensure(
        pulled_spec(image), stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S
    )
    registry.gate.hold()
    starting = asyncio.create_task(
        backend.start(start_request(docker_harness, container_id, FIRST), timeout_s=60)
    )
    await eventually(registry.gate.waiting.is_set, within_s=60)
    (container,) = docker_harness.containers()
    assert container["Names"] == [f"/{container_id}"]
    await backend.stop(container_id, FIRST, timeout_s=TIMEOUT_S)
    assert (await observe(backend, container_id)).state is ContainerState.STOPPED
    registry.gate.release()
    with pytest.raises(StartSuperseded, match="was stopped"):
        await starting
    assert not docker_harness.runs(FIRST)


@pytest.mark.long
async def test_next_bot_does_not_get_error_of_old_pull(
    docker_harness: DockerHarness, registry: Registry
) -> None:
    tag = secrets.token_hex(4)
    image = f"{registry.address}/bot:{tag}"
    backend = await docker_harness.open_backend()
    container_id = await backend.ensure(
        pulled_spec(image), stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S
    )
    registry.gate.hold(after_bytes=0)
    with pytest.raises(BudgetExhausted):
        await backend.start(start_request(docker_harness, container_id, FIRST), timeout_s=3)
    (puller,) = pullers()
    assert os.getsid(puller) == puller, "otherwise Ctrl-C would end the pull"
    await backend.stop(container_id, FIRST, timeout_s=TIMEOUT_S)
    registry.gate.release()
    await eventually(lambda: not pullers(), within_s=60)
    assert publish(docker_harness.dockerd, registry, tag, PROGRAM, mb=1) == image
    await backend.start(start_request(docker_harness, container_id, SECOND), timeout_s=60)
    await eventually(lambda: docker_harness.runs(SECOND))


def pullers() -> list[int]:
    """Return the running pullers; an unreaped one has no command line."""
    ours = [each.as_dict(["pid", "cmdline"]) for each in psutil.Process().children()]
    return [each["pid"] for each in ours if "docker.puller" in " ".join(each["cmdline"] or ())]


def begin_start(
    harness: DockerHarness, container_id: ContainerId, environment: Any
) -> subprocess.Popen[bytes]:
    config = asdict(harness.config()) | {
        "folder": str(harness.config().folder),
        "host": harness.dockerd.host,
    }
    job = {
        "config": config,
        "container_id": container_id,
        "assignment_id": FIRST,
        "environment": dict(environment),
    }
    program = Path(__file__).with_name("killed_docker_start.py")
    return subprocess.Popen([sys.executable, str(program), json.dumps(job)])


async def started(
    backend: DockerBackend, harness: DockerHarness, container_id: ContainerId
) -> None:
    for _ in range(20):
        try:
            await backend.start(start_request(harness, container_id, FIRST), timeout_s=TIMEOUT_S)
            break
        except BudgetExhausted as exhausted:
            await asyncio.sleep(exhausted.retry_after_s)
    await eventually(lambda: harness.runs(FIRST))
