"""An old copy of the database is restored while containers run, on Docker and emulated Coolify.

Their fences differ from that of local processes (`test_lost_commits.py`): labels of containers and
variables of applications remember the assignments of the lost time.
"""

import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.support.coolify_installation import Coolify, coolify_installation
from tests.support.docker_installation import docker_installation, load_image, pool
from tests.support.dockerd import Dockerd
from tests.support.fixed_port_installation import FixedPortInstallation, wait_for
from tests.support.invariants import assert_settled
from tests.support.postgres import TestPostgres

WAIT_S = 150.0
STAY = {"joinSeconds": 0, "staySeconds": 3600}

pytestmark = [pytest.mark.timeout(900), pytest.mark.long]


async def restore_while_containers_run(
    installed: FixedPortInstallation,
    postgres: TestPostgres,
    running: Callable[[], Awaitable[int]],
    seed: int,
) -> None:
    rng = random.Random(seed)
    server = await installed.serve()
    kept = await installed.send(rng.randint(1, 2), STAY)
    await installed.wait_for_in_call(*kept)
    await server.stop()
    backup = postgres.create_database(installed.database_url)
    server = await installed.serve()
    lost = await installed.send(rng.randint(1, 2), STAY)
    await installed.wait_for_in_call(*lost)
    await server.stop()
    installed.database_url = backup
    try:
        await installed.serve()
        new = await installed.send(rng.randint(1, 2), STAY)
        assert {bot["id"] for bot in new}.isdisjoint(bot["id"] for bot in (*kept, *lost))
        await installed.wait_for_in_call(*kept, *new)

        async def only_known_bots_run() -> bool:
            return await running() == len(kept) + len(new)

        await wait_for("the stop of the lost containers", only_known_bots_run, within_s=WAIT_S)
        bots = [await installed.bot(bot["id"]) for bot in (*kept, *new)]
        assert {(bot["status"], bot["attempts"]) for bot in bots} == {("IN_CALL", 1)}
        for bot in bots:
            await installed.call("DELETE", f"/v1/bots/{bot['id']}")
        await installed.wait_for_end(WAIT_S)

        async def nothing_runs() -> bool:
            return await running() == 0

        await wait_for("the stop of all containers", nothing_runs, within_s=WAIT_S)
        assert_settled(backup)
    finally:
        await installed.clear()
        postgres.drop_database(backup)


async def test_restored_copy_with_docker(
    dockerd: Dockerd, postgres: TestPostgres, database_url: str, tmp_path: Path, seed: int
) -> None:
    settings = pool("google-meet", load_image(dockerd), 5)
    async with docker_installation(dockerd, database_url, tmp_path, **settings) as installed:

        async def running() -> int:
            return len(installed.running())

        await restore_while_containers_run(installed, postgres, running, seed)


async def test_restored_copy_with_coolify(
    postgres: TestPostgres, database_url: str, tmp_path: Path, seed: int
) -> None:
    async with (
        Coolify.emulated() as coolify,
        coolify_installation(coolify, database_url, tmp_path) as installed,
    ):

        async def running() -> int:
            return int((await coolify.state())["runningContainers"])

        await restore_while_containers_run(installed, postgres, running, seed)
