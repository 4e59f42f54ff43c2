"""Real faults of a Docker host: each ended bot has the reason of its fault."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.docker_installation import (
    DockerInstallation,
    docker_installation,
    pool,
    publish_image,
)
from tests.support.dockerd import Dockerd
from tests.support.fixed_port_installation import wait_for
from tests.support.invariants import assert_settled
from tests.support.ports import free_port
from tests.support.registry import Registry

LONG_CALL = {"joinSeconds": 0, "staySeconds": 600}
SHORT_CALL = {"joinSeconds": 0, "staySeconds": 0}
SMALL_MB = 48


@pytest.fixture
async def image(dockerd: Dockerd, registry: Registry) -> str:
    return publish_image(dockerd, registry, mb=1)


@pytest.fixture
async def installed(
    dockerd: Dockerd, registry: Registry, image: str, database_url: str, tmp_path: Path
) -> AsyncIterator[DockerInstallation]:
    settings = (
        pool("google-meet", image, 3, memory_mb=SMALL_MB)
        | pool("missing", f"{registry.address}/missing:1", 1)
        # No periodic observation: only the daemon's events show that a container ended.
        | {"deploy.poll_interval_s": "600", "recovery.interval_s": "600"}
    )
    async with docker_installation(dockerd, database_url, tmp_path, **settings) as installed:
        await installed.serve()
        yield installed


async def wait_for_final(installed: DockerInstallation, bot: dict[str, Any]) -> dict[str, Any]:
    async def is_final() -> bool:
        return (await installed.bot(bot["id"]))["endedAt"] is not None

    await wait_for(f"the end of bot {bot['id']}", is_final, within_s=400)
    return await installed.bot(bot["id"])


async def container_of(installed: DockerInstallation, bot: dict[str, Any]) -> str:
    container_id: str = (await installed.bot(bot["id"]))["containerId"]
    return container_id


async def kill_container(daemon: Dockerd, container: str) -> None:
    """Kill a container and wait until Docker shows its end."""
    daemon.call("POST", f"/containers/{container}/kill")

    async def has_ended() -> bool:
        return not daemon.call("GET", f"/containers/{container}/json")["State"]["Running"]

    await wait_for(f"Docker to end {container}", has_ended, within_s=60)


@pytest.mark.timeout(600)
async def test_failure_reason_names_what_happened_to_the_container(
    installed: DockerInstallation,
) -> None:
    killed, removed = await installed.send(2, LONG_CALL)
    (too_large,) = await installed.send(1, LONG_CALL | {"useAllMemory": True})
    (missing,) = await installed.send(1, SHORT_CALL, "missing")
    await installed.wait_for_in_call(killed, removed)
    daemon = installed.dockerd
    await kill_container(daemon, await container_of(installed, killed))
    daemon.call("DELETE", f"/containers/{await container_of(installed, removed)}", force=1)

    for bot, code, *reasons in (
        (killed, "container_exited", "killed by SIGKILL"),
        # Docker kills the container before the removal; an observation may come between.
        (removed, "container_exited", "gone", "killed by SIGKILL"),
        (too_large, "container_exited", f"ran out of memory ({SMALL_MB} MB)"),
        (missing, "deploy_failed", "pools.missing.image: "),
    ):
        ended = await wait_for_final(installed, bot)
        assert (ended["status"], ended["failureCode"]) == ("FAILED", code), ended
        assert any(reason in ended["failureReason"] for reason in reasons), ended

    after = await installed.send(3, SHORT_CALL)
    for bot in after:
        assert (await wait_for_final(installed, bot))["status"] == "DONE"
    await assert_all_stopped(installed)


async def test_failure_reason_names_the_unreachable_registry(
    dockerd: Dockerd, database_url: str, tmp_path: Path
) -> None:
    settings = pool("unreachable", f"127.0.0.1:{free_port()}/bot:1", 1)
    # Short only here: on a slow machine, a bot that waits for a real pull would fail too.
    settings |= {"deploy.wait_timeout_s": "3"}
    async with docker_installation(dockerd, database_url, tmp_path, **settings) as installed:
        await installed.serve()
        (bot,) = await installed.send(1, SHORT_CALL, "unreachable")
        ended = await wait_for_final(installed, bot)
        assert (ended["status"], ended["failureCode"]) == ("FAILED", "deploy_failed"), ended
        assert "connection refused" in ended["failureReason"], ended


@pytest.mark.timeout(600)
async def test_daemon_killed_under_load_ends_running_bots_and_loses_no_other(
    installed: DockerInstallation,
) -> None:
    running = await installed.send(3, LONG_CALL)
    await installed.wait_for_in_call(*running)
    waiting = await installed.send(3, SHORT_CALL)
    installed.dockerd.kill()
    try:
        # While the daemon does not respond, Botpool must not end any bot.
        await asyncio.sleep(3)
        statuses = [(await installed.bot(bot["id"]))["status"] for bot in running]
        assert statuses == ["IN_CALL"] * 3
        (sent_during_outage,) = await installed.send(1, SHORT_CALL)
    finally:
        await asyncio.to_thread(installed.dockerd.start)
    # A starting daemon stops running containers; some bots still report DONE.
    for bot in running:
        end = await wait_for_final(installed, bot)
        assert (end["status"], end["failureCode"]) in (
            ("DONE", None),
            ("FAILED", "container_exited"),
        )
    for bot in (*waiting, sent_during_outage):
        assert (await wait_for_final(installed, bot))["status"] == "DONE"
    await assert_all_stopped(installed)


async def assert_all_stopped(installed: DockerInstallation) -> None:
    async def is_settled() -> bool:
        with suppress(AssertionError):
            assert_settled(installed.database_url)
            return not installed.running()
        return False

    await wait_for("a settled installation", is_settled, within_s=150)
    assert_settled(installed.database_url)
