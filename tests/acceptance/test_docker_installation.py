"""An installation on Docker: API, image gate, daemon, registry, containers and agents, all real."""

import statistics
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.support.docker_installation import docker_installation, pool, publish_image
from tests.support.dockerd import Dockerd
from tests.support.fixed_port_installation import wait_for
from tests.support.invariants import assert_settled
from tests.support.registry import Registry

SHORT_CALL = {"joinSeconds": 0, "staySeconds": 0}
WAN_BYTES_PER_S = 500_000.0
"""So slow that a cold start takes longer than a warm one, also on a busy machine."""


@pytest.mark.timeout(600)
async def test_simultaneous_bots_pull_once_and_their_output_is_stored(
    dockerd: Dockerd, registry: Registry, database_url: str, tmp_path: Path
) -> None:
    image = publish_image(dockerd, registry)
    settings = pool("google-meet", image, 3)
    async with docker_installation(dockerd, database_url, tmp_path, **settings) as installed:
        await installed.serve()
        registry.gate.hold()
        bots = await installed.send(3, SHORT_CALL)

        async def one_leads() -> bool:
            phases = await installed.phases()
            return registry.gate.waiting.is_set() and phases == [
                "starting",
                *["waiting_for_image"] * 2,
            ]

        await wait_for("a leader and two waiting slots", one_leads)
        registry.gate.release()
        assert await installed.wait_for_end(within_s=150) == {bot["id"]: "DONE" for bot in bots}
        assert_pulled_once(registry)
        assert len(await installed.leaders()) == 1
        assert "in call" in await installed.bot_output(bots[0]["id"])
        assert_settled(database_url)
        assert installed.running() == set()
        checks = await installed.doctor_output()
        assert "Docker" in checks
        assert "docker: 3 containers" in checks


@pytest.mark.timeout(600)
async def test_ten_bots_pull_once_and_fifty_bots_share_five_containers(
    dockerd: Dockerd, registry: Registry, database_url: str, tmp_path: Path
) -> None:
    image = publish_image(dockerd, registry)
    registry.gate.bytes_per_s = WAN_BYTES_PER_S
    settings = pool("zoom", image, 10) | pool("google-meet", image, 5)
    try:
        async with docker_installation(dockerd, database_url, tmp_path, **settings) as installed:
            await installed.serve()
            first = await installed.send(10, SHORT_CALL, "zoom")
            assert await installed.wait_for_end(within_s=150) == {
                bot["id"]: "DONE" for bot in first
            }
            assert_pulled_once(registry)
            (leader,) = await installed.leaders()

            later = await installed.send(50, SHORT_CALL)
            ended = await installed.wait_for_end(within_s=300)
            assert [ended[bot["id"]] for bot in later] == ["DONE"] * 50
            names = {each["Names"][0] for each in installed.containers()}
            assert len(names) == len(installed.containers()) == 10 + 5
            assert_pulled_once(registry)

            cold_s = start_s(await installed.bot(leader))
            warm_s = statistics.median([start_s(await installed.bot(b["id"])) for b in later])
            print(f"\ncold {cold_s:.2f} s, warm {warm_s:.2f} s: {cold_s / warm_s:.1f} times")  # noqa: T201
            assert cold_s > warm_s
            assert_settled(database_url)
    finally:
        registry.gate.bytes_per_s = None


@pytest.mark.timeout(600)
async def test_tag_that_is_pushed_again_is_pulled_once(
    dockerd: Dockerd, registry: Registry, database_url: str, tmp_path: Path
) -> None:
    """A replica resolves a tag every five minutes; a restarted one resolves it at once."""
    image = publish_image(dockerd, registry)
    settings = pool("google-meet", image, 3)
    async with docker_installation(dockerd, database_url, tmp_path, **settings) as installed:
        server = await installed.serve()
        await installed.send(3, SHORT_CALL)
        await installed.wait_for_end(within_s=150)
        first = {slot["image"] for slot in await installed.slots()}
        server.kill()
        publish_image(dockerd, registry, tag=image.rpartition(":")[2])
        await installed.serve()
        later = await installed.send(3, SHORT_CALL)
        ended = await installed.wait_for_end(within_s=150)
        assert [ended[bot["id"]] for bot in later] == ["DONE"] * 3
        assert len(await installed.leaders()) == 2, "one for each digest"
        assert_pulled_once(registry)
        second = {slot["image"] for slot in await installed.slots()}
        assert len(first) == len(second) == 1
        assert first != second


def start_s(bot: Mapping[str, Any]) -> float:
    """Return the seconds from the assignment to the first evidence that the bot runs."""
    began, ended = (datetime.fromisoformat(bot[name]) for name in ("assignedAt", "startedAt"))
    return (ended - began).total_seconds()


def assert_pulled_once(registry: Registry) -> None:
    """Check that no part of an image was fetched twice."""
    assert set(registry.fetch_counts().values()) == {1}, registry.fetch_counts()
