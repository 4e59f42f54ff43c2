"""Replicas restart one after the other while clients request bots.

As with a supervisor, each replica gets SIGTERM, and a new process starts on the same port. Leases
last an hour, so the test fails if a replica does not return one.
"""

import asyncio
import shlex
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from botpool.store.migrator import migrate
from tests.chaos.client_load import (
    LoadClient,
    assert_none_joined_twice,
    bots_of,
    slots_not_idle,
    wait_for_joined,
)
from tests.chaos.recording_bot import MEETING_OVER
from tests.support.invariants import assert_settled
from tests.support.postgres import TestPostgres
from tests.support.server import FINAL, Installation, Server, installation, none_left

HERE = Path(__file__).parent
POOL = 6


@pytest.fixture
async def installed(postgres: TestPostgres, tmp_path: Path) -> AsyncIterator[Installation]:
    url = postgres.create_database()
    migrate(url)
    settings = {
        "pools.google-meet.max_size": str(POOL),
        "backends.process.command": shlex.join(
            [sys.executable, str(HERE / "recording_bot.py"), str(tmp_path)]
        ),
        "agent.heartbeat_interval_ms": "1000",
    }
    async with installation(url, tmp_path, settings) as installed:
        installed.command = (sys.executable, str(HERE / "long_leases.py"))
        yield installed
    postgres.drop_database(url)


@pytest.mark.timeout(900)
async def test_rolling_restart_under_load_loses_no_bot(installed: Installation) -> None:
    servers = await asyncio.gather(installed.serve(), installed.serve())
    users = [installed.client(server, timeout=20.0) for server in servers]
    load = LoadClient(users)
    posting = asyncio.create_task(load.post_until_stopped())
    await wait_for_joined(installed, 2)
    (installed.data_dir / MEETING_OVER).touch()
    for server in servers:
        await restart(installed, server)
        await load.wait_for_accepted(len(load.accepted) + 2)
    load.stopping = True
    await posting

    async def unfinished() -> dict[int, str]:
        return {bot: status for bot, status in await bots_of(users) if status not in FINAL}

    await none_left("bots that have not wait_for_exit", unfinished, within_s=180)
    bots = dict(await bots_of(users))
    for user in users:
        await user.aclose()
    assert [response.text for response in load.error_responses] == [], (
        "a replica sent an error response"
    )
    assert sorted(load.accepted.values()) == sorted(bots), "a bot is lost or created twice"
    assert Counter(bots.values()) == {"DONE": len(bots)}
    assert_none_joined_twice(installed, set(bots))
    await none_left("slots that are not idle", lambda: slots_not_idle(installed), within_s=120)
    await none_left("processes left over", installed.left_over, within_s=120)
    assert_settled(installed.database_url)


async def restart(installed: Installation, server: Server) -> None:
    """Restart a replica that holds leases, and check that it returns them."""

    async def idle() -> list[str]:
        return [] if leases_of(installed, server) else ["replica"]

    await none_left("replicas without a lease", idle, within_s=60, every_s=0.005)
    assert await server.stop() == 0
    assert leases_of(installed, server) == [], "the replica kept leases"
    await installed.serve(server.port)


def leases_of(installed: Installation, server: Server) -> list[tuple[str]]:
    return installed.rows(
        "SELECT slot_name FROM bot_pool_slots WHERE split_part(lease_owner, ':', 2) = %s",
        str(server.process.pid),
    )
