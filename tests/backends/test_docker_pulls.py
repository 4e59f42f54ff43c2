"""Images that must be pulled: once, by a process that outlives us, and with its own words."""

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
from botpool.backends.docker.daemon import Daemon
from botpool.backends.protocol import ContainerSpec
from botpool.domain.errors import BackendRefused, BudgetExhausted, StartSuperseded
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import ContainerState, DeploymentState
from tests.backends.docker_harness import DockerHarness
from tests.backends.harness import SPEC, TIMEOUT_S, eventually, look, order
from tests.support.docker_host import publish
from tests.support.registry import Registry

FIRST, SECOND = AssignmentId(11), AssignmentId(12)
PROGRAM = Path(__file__).with_name("container_program.py")


def pulled_spec(image: str) -> ContainerSpec:
    return replace(SPEC, image=image)


@pytest.mark.long
async def test_what_is_no_name_of_an_image_is_refused_by_its_setting(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.control_plane()
    container_id = await backend.ensure(pulled_spec("No/Name:1"), timeout_s=TIMEOUT_S)
    with pytest.raises(BackendRefused, match=r"^pools\.teams\.image: "):
        await backend.start(order(docker_harness, container_id, FIRST), timeout_s=60)


@pytest.mark.long
async def test_an_image_that_is_taken_away_at_the_last_moment_is_pulled(
    docker_harness: DockerHarness, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = publish(docker_harness.dockerd, registry, secrets.token_hex(4), PROGRAM, mb=1)
    backend = await docker_harness.control_plane()
    container_id = await backend.ensure(pulled_spec(image), timeout_s=TIMEOUT_S)
    has_image, asked = Daemon.has_image, []

    async def has_it_at_first(daemon: Daemon, name: str) -> bool:
        asked.append(name)
        return len(asked) == 1 or await has_image(daemon, name)

    monkeypatch.setattr(Daemon, "has_image", has_it_at_first)
    await started(backend, docker_harness, container_id)
    assert registry.asked_for(image.rpartition(":")[2]) == 1


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
    with pytest.raises(BudgetExhausted, match="is being pulled"):
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
    (mark,) = docker_harness.containers()
    assert mark["Names"] == [f"/{container_id}"]
    await backend.stop(container_id, FIRST, timeout_s=TIMEOUT_S)
    assert (await look(backend, container_id)).state is ContainerState.STOPPED
    registry.gate.release()
    with pytest.raises(StartSuperseded, match="was stopped"):
        await starting
    assert not docker_harness.runs(FIRST)


@pytest.mark.long
async def test_why_a_pull_failed_long_ago_is_not_the_reason_of_the_next_bot(
    docker_harness: DockerHarness, registry: Registry
) -> None:
    tag = secrets.token_hex(4)
    image = f"{registry.address}/bot:{tag}"
    backend = await docker_harness.control_plane()
    container_id = await backend.ensure(pulled_spec(image), timeout_s=TIMEOUT_S)
    registry.gate.hold(after_bytes=0)
    with pytest.raises(BudgetExhausted):
        await backend.start(order(docker_harness, container_id, FIRST), timeout_s=3)
    (puller,) = pullers()
    assert os.getsid(puller) == puller, "or Ctrl-C would end it with us"
    await backend.stop(container_id, FIRST, timeout_s=TIMEOUT_S)
    registry.gate.release()
    await eventually(lambda: not pullers(), within_s=60)
    assert publish(docker_harness.dockerd, registry, tag, PROGRAM, mb=1) == image
    await backend.start(order(docker_harness, container_id, SECOND), timeout_s=60)
    await eventually(lambda: docker_harness.runs(SECOND))


def pullers() -> list[int]:
    """A dead one that nobody has waited for is there still, but has lost its command line."""
    ours = [each.as_dict(["pid", "cmdline"]) for each in psutil.Process().children()]
    return [each["pid"] for each in ours if "docker.puller" in " ".join(each["cmdline"] or ())]


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
        except BudgetExhausted as spent:
            await asyncio.sleep(spent.retry_after_s)
    await eventually(lambda: harness.runs(FIRST))
