"""Rollouts on a real Docker daemon and registry, with replicas that `kill -9` ends.

Each image has its digest from the registry. The share is 10 %, so the 10th and the 20th bot get the
new image: a rollback needs two failures and cannot come before the 20th.
"""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support import canary_bot
from tests.support.bot_image import PYTHON
from tests.support.docker_host import publish
from tests.support.docker_installation import DockerInstallation, docker_installation, pool
from tests.support.dockerd import Dockerd
from tests.support.fixed_port_installation import Body, wait_for
from tests.support.invariants import assert_settled
from tests.support.registry import Registry

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

ROLLOUTS = "/v1/pools/google-meet/rollouts"
SHORT_CALL = {"joinSeconds": 0, "staySeconds": 0}
WITHIN_S = 900
PROGRAM = Path(canary_bot.__file__)
CHOSEN_FIRST = (
    "SELECT u.is_new, v.image FROM rollout_runs u JOIN assignments a ON a.id = u.run_id"
    " JOIN revisions v ON v.id = u.revision_id WHERE a.attempt = 1 ORDER BY u.chosen_at"
)


@asynccontextmanager
async def installation_of(
    dockerd: Dockerd, registry: Registry, database_url: str, data_dir: Path
) -> AsyncIterator[DockerInstallation]:
    """Create an installation whose pool has a good image."""
    settings = pool("google-meet", image_with(dockerd, registry), 6) | {
        "queue.default_timeout_ms": "3600000",
        "queue.max_timeout_ms": "3600000",
        "queue.poll_interval_ms": "100",
    }
    async with docker_installation(dockerd, database_url, data_dir, **settings) as installed:
        yield installed


def image_with(dockerd: Dockerd, registry: Registry, *fault: str, tag: str | None = None) -> str:
    """Push an image with that fault, or a good one, and return its name."""
    command = [PYTHON, "/bot/bot.py", *fault]
    return publish(dockerd, registry, tag or secrets.token_hex(4), PROGRAM, mb=1, command=command)


async def newest(installed: DockerInstallation) -> Body:
    rollout: Body = (await installed.call("GET", ROLLOUTS))["rollouts"][0]
    return rollout


async def wait_for_state(installed: DockerInstallation, *states: str) -> Body:
    async def is_reached() -> bool:
        return (await newest(installed))["state"] in states

    await wait_for(f"a rollout that is {states}", is_reached, within_s=WITHIN_S)
    return await newest(installed)


async def kill_in_pull(
    installed: DockerInstallation, registry: Registry, image: str, share: float, tolerance: float
) -> None:
    """Start a rollout and kill the replica while the registry answers the pull."""
    request = {"image": image, "canaryShare": share, "bakeMs": 0, "tolerance": tolerance}
    registry.gate.hold()
    await installed.call("POST", ROLLOUTS, json=request)

    async def pulls() -> bool:
        return registry.gate.waiting.is_set()

    await wait_for("the pull", pulls, within_s=WITHIN_S)
    installed.servers[-1].kill()
    registry.gate.release()
    await installed.serve()


async def kill_in_canary(installed: DockerInstallation, bots: int) -> None:
    """Send bots, and kill the replica as soon as one of them has the new image."""
    before = len([row for row in installed.rows(CHOSEN_FIRST) if row[0]])
    await installed.send(bots, SHORT_CALL)

    async def has_new() -> bool:
        return len([row for row in installed.rows(CHOSEN_FIRST) if row[0]]) > before

    await wait_for("a bot with the new image", has_new, within_s=WITHIN_S)
    installed.servers[-1].kill()
    await installed.serve()


async def wait_for_choices(installed: DockerInstallation, bots: int) -> None:
    """Wait until the deployments of so many bots have chosen their revision."""

    async def are_chosen() -> bool:
        return len(installed.rows(CHOSEN_FIRST)) >= bots

    await wait_for(f"{bots} choices", are_chosen, within_s=WITHIN_S)


def assert_share(installed: DockerInstallation, share: float) -> int:
    """Check that every prefix of the choices has exactly its share; return the new ones."""
    chosen = [is_new for is_new, _ in installed.rows(CHOSEN_FIRST)]
    for bots in range(1, len(chosen) + 1):
        assert sum(chosen[:bots]) <= bots * share, chosen
    assert sum(chosen) == int(len(chosen) * share), chosen
    return sum(chosen)


async def roll_back_canary(installed: DockerInstallation, registry: Registry, image: str) -> Body:
    """Send bots into a canary, with kills, until it is rolled back."""
    await installed.serve()
    await installed.send(26, SHORT_CALL)
    await installed.wait_for_end(within_s=WITHIN_S)
    await kill_in_pull(installed, registry, image, 0.1, 0.1)
    await wait_for_state(installed, "canary")
    await kill_in_canary(installed, 20)
    await wait_for_choices(installed, 20)
    assert assert_share(installed, 0.1) == 2
    return await wait_for_state(installed, "rolled_back")


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        (canary_bot.SLEEPS, "2 of 2 bots of the new revision started slowly"),
        (canary_bot.CRASHES, "2 of 2 bots of the new revision exited within 5 minutes"),
    ],
)
async def test_bad_image_is_rolled_back_within_its_share_although_replicas_are_killed(
    fault: str,
    reason: str,
    dockerd: Dockerd,
    registry: Registry,
    database_url: str,
    tmp_path: Path,
) -> None:
    image = image_with(dockerd, registry, fault)
    async with installation_of(dockerd, registry, database_url, tmp_path) as installed:
        ended = await roll_back_canary(installed, registry, image)
        assert ended["reason"].startswith(reason), ended
        await assert_only_old_image_follows(installed, ended)
        for bot in (await installed.call("GET", "/v1/bots?status=JOINING_CALL"))["bots"]:
            await installed.call("DELETE", f"/v1/bots/{bot['id']}")
        await installed.wait_for_end(within_s=WITHIN_S)
        assert_settled(database_url)


async def assert_only_old_image_follows(installed: DockerInstallation, ended: Body) -> None:
    """Check that later bots get the old image, and that the pool has it."""
    shown = (await installed.call("GET", "/v1/pools/google-meet"))["pool"]
    assert shown["image"] == ended["old"]["image"].partition("@")[0]
    later = await installed.send(3, SHORT_CALL)

    async def are_done() -> bool:
        return all([(await installed.bot(bot["id"]))["status"] == "DONE" for bot in later])

    await wait_for("later bots", are_done, within_s=WITHIN_S)
    names = [(await installed.bot(bot["id"]))["slotName"] for bot in later]
    images = {slot["name"]: slot["image"] for slot in await installed.slots()}
    assert {images[name] for name in names} == {ended["old"]["image"]}
