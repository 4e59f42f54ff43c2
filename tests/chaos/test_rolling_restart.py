"""Replicas are restarted one after the other, in order, while bots come and go.

As a supervisor does it: SIGTERM, and a new process on the same port. Their leases last an hour, so
whatever a replica did not hand back would stay undone until long after the test.
"""

import asyncio
import shlex
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from botpool.store.migrations import migrate
from tests.chaos.load import Poster, assert_none_joined_twice, bots_in_call, bots_of, not_idle
from tests.chaos.witness_bot import MEETING_OVER
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
            [sys.executable, str(HERE / "witness_bot.py"), str(tmp_path)]
        ),
        "agent.heartbeat_interval_ms": "1000",
    }
    async with installation(url, tmp_path, settings) as made:
        made.command = (sys.executable, str(HERE / "long_leases.py"))
        yield made
    postgres.drop_database(url)


async def test_a_rolling_restart_under_load_loses_nothing(installed: Installation) -> None:
    servers = await asyncio.gather(installed.serve(), installed.serve())
    users = [installed.client(server, timeout=20.0) for server in servers]
    poster = Poster(users)
    posting = asyncio.create_task(poster.post_until_enough())
    await bots_in_call(installed, 2)
    (installed.data_dir / MEETING_OVER).touch()
    for server in servers:
        await restart(installed, server)
        await poster.has_posted(len(poster.accepted) + 2)
    poster.enough = True
    await posting

    async def unfinished() -> dict[int, str]:
        return {bot: status for bot, status in await bots_of(users) if status not in FINAL}

    await none_left("bots that have not ended", unfinished, within_s=90)
    bots = dict(await bots_of(users))
    for user in users:
        await user.aclose()
    assert [answer.text for answer in poster.refusals] == [], "a refused connection is all there is"
    assert sorted(poster.accepted.values()) == sorted(bots), "a bot was lost, or made twice"
    assert Counter(bots.values()) == {"DONE": len(bots)}
    assert_none_joined_twice(installed, set(bots))
    await none_left("slots that are not idle", lambda: not_idle(installed), within_s=60)
    await none_left("processes left over", installed.left_over, within_s=60)
    assert_settled(installed.database_url)


async def restart(installed: Installation, server: Server) -> None:
    """In the middle of its work: it holds leases when it is told to end, and none afterwards."""

    async def idle() -> list[str]:
        return [] if leases_of(installed, server) else ["replica"]

    await none_left("replicas without a lease", idle, within_s=60, every_s=0.005)
    assert await server.stop() == 0
    assert leases_of(installed, server) == [], "not handed back"
    await installed.serve(server.port)


def leases_of(installed: Installation, server: Server) -> list[tuple[str]]:
    return installed.rows(
        "SELECT slot_name FROM bot_pool_slots WHERE split_part(lease_owner, ':', 2) = %s",
        str(server.process.pid),
    )
