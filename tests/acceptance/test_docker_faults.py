"""What goes wrong at a Docker host, for real, and what becomes of the bots: each has its reason."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.support.docker_installation import DockerInstallation, installed_on, pool, published
from tests.support.dockerd import Dockerd
from tests.support.fixed_port_installation import reached, reserved_port
from tests.support.invariants import assert_settled
from tests.support.registry import Registry

STAYS = {"joinSeconds": 0, "staySeconds": 600}
SHORT = {"joinSeconds": 0, "staySeconds": 0}
SMALL_MB = 48


@pytest.fixture
async def image(dockerd: Dockerd, registry: Registry) -> str:
    return published(dockerd, registry, mb=1)


@pytest.fixture
async def installed(
    dockerd: Dockerd, registry: Registry, image: str, database_url: str, tmp_path: Path
) -> AsyncIterator[DockerInstallation]:
    settings = (
        pool("google-meet", image, 3, memory_mb=SMALL_MB)
        | pool("missing", f"{registry.address}/nobodys:1", 1)
        | pool("unreachable", f"127.0.0.1:{reserved_port()}/bot:1", 1)
        | {"deploy.wait_timeout_s": "3"}
        # No look comes by itself: what is known of an end the daemon's events have told.
        | {"deploy.poll_interval_s": "600", "recovery.interval_s": "600"}
    )
    async with installed_on(dockerd, database_url, tmp_path, **settings) as installed:
        await installed.serve()
        yield installed


async def ending(installed: DockerInstallation, bot: dict[str, Any]) -> dict[str, Any]:
    async def is_final() -> bool:
        return (await installed.bot(bot["id"]))["endedAt"] is not None

    await reached("the end of a bot", is_final, within_s=150)
    return await installed.bot(bot["id"])


async def container_of(installed: DockerInstallation, bot: dict[str, Any]) -> str:
    container_id: str = (await installed.bot(bot["id"]))["containerId"]
    return container_id


async def test_what_happens_to_a_container_is_the_reason_of_its_bots_end(
    installed: DockerInstallation,
) -> None:
    killed, removed = await installed.send(2, STAYS)
    (hungry,) = await installed.send(1, STAYS | {"hungry": True})
    (missing,) = await installed.send(1, SHORT, "missing")
    (unreachable,) = await installed.send(1, SHORT, "unreachable")
    await installed.in_call(killed, removed)
    daemon = installed.dockerd
    daemon.ask("POST", f"/containers/{await container_of(installed, killed)}/kill")
    daemon.ask("DELETE", f"/containers/{await container_of(installed, removed)}", force=1)

    for bot, code, *reasons in (
        (killed, "container_exited", "killed by SIGKILL"),
        # Docker kills what it removes: the look may come between.
        (removed, "container_exited", "gone", "killed by SIGKILL"),
        (hungry, "container_exited", f"ran out of memory ({SMALL_MB} MB)"),
        (missing, "deploy_failed", "pools.missing.image: "),
        (unreachable, "deploy_failed", "connection refused"),
    ):
        seen = await ending(installed, bot)
        assert (seen["status"], seen["failureCode"]) == ("FAILED", code), seen
        assert any(reason in seen["failureReason"] for reason in reasons), seen

    after = await installed.send(3, SHORT)
    for bot in after:
        assert (await ending(installed, bot))["status"] == "DONE"
    await nothing_runs(installed)


async def test_a_daemon_that_is_killed_and_restarted_under_load(
    installed: DockerInstallation,
) -> None:
    running = await installed.send(3, STAYS)
    await installed.in_call(*running)
    waiting = await installed.send(3, SHORT)
    installed.dockerd.kill()
    try:
        # Nothing is believed while it does not answer: not even that bots have ended.
        await asyncio.sleep(3)
        seen = [(await installed.bot(bot["id"]))["status"] for bot in running]
        assert seen == ["IN_CALL"] * 3
        (met_the_outage,) = await installed.send(1, SHORT)
    finally:
        await asyncio.to_thread(installed.dockerd.start)
    # A daemon ends what it finds running at its start: some bots have time to say goodbye.
    for bot in running:
        end = await ending(installed, bot)
        assert (end["status"], end["failureCode"]) in (
            ("DONE", None),
            ("FAILED", "container_exited"),
        )
    for bot in (*waiting, met_the_outage):
        assert (await ending(installed, bot))["status"] == "DONE"
    await nothing_runs(installed)


async def nothing_runs(installed: DockerInstallation) -> None:
    async def is_settled() -> bool:
        with suppress(AssertionError):
            assert_settled(installed.database_url)
            return not installed.running()
        return False

    await reached("rest", is_settled, within_s=150)
    assert_settled(installed.database_url)
