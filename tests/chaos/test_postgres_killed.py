"""PostgreSQL is killed under load and started again, twice; nobody touches Botpool meanwhile.

First while bots are in their meetings and others wait, then while all of them end, so that starts,
reports, releases and hand-overs are cut off in the middle. A client goes on posting all the time
and repeats what was not answered, under the same key, as clients do.
"""

import asyncio
import shlex
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest

from botpool.store.migrations import migrate
from tests.chaos.load import Poster, assert_none_joined_twice, bots_in_call, bots_of, not_idle
from tests.chaos.witness_bot import MEETING_OVER
from tests.support.invariants import assert_settled
from tests.support.postgres import TestPostgres
from tests.support.server import FINAL, Installation, Server, get, installation, none_left

DOWN_S = 3.0
LEASE_S = 60.0
"""What was cut off inside a leased step is taken up when its lease has ended."""
POOL = 12


@pytest.fixture
def own_postgres() -> Iterator[TestPostgres]:
    with TestPostgres() as server:
        yield server


@pytest.fixture
async def installed(own_postgres: TestPostgres, tmp_path: Path) -> AsyncIterator[Installation]:
    url = own_postgres.create_database()
    migrate(url)
    bot = [sys.executable, str(Path(__file__).with_name("witness_bot.py")), str(tmp_path)]
    settings = {
        "pools.google-meet.max_size": str(POOL),
        "backends.process.command": shlex.join(bot),
        "agent.heartbeat_interval_ms": "1000",
    }
    async with installation(url, tmp_path, settings) as made:
        yield made


@pytest.mark.timeout(400)
async def test_a_killed_postgres_costs_no_bot(
    own_postgres: TestPostgres, installed: Installation
) -> None:
    server = await installed.serve()
    async with installed.client(server, timeout=20.0) as user:
        poster = Poster([user])
        posting = asyncio.create_task(poster.post_until_enough())
        await bots_in_call(installed, POOL // 2)
        await poster.has_posted(2 * POOL)
        await outage(own_postgres, server)
        (installed.data_dir / MEETING_OVER).touch()
        await bots_done(user, POOL)
        await outage(own_postgres, server)
        await poster.has_posted(5 * POOL)
        poster.enough = True
        await posting

        async def unfinished() -> dict[int, str]:
            return {bot: status for bot, status in await bots_of([user]) if status not in FINAL}

        await none_left("bots that have not ended", unfinished, within_s=LEASE_S + 90)
        bots = dict(await bots_of([user]))
    assert_told_why(poster.refusals)
    assert sorted(poster.accepted.values()) == sorted(bots), "a bot was lost, or made twice"
    assert Counter(bots.values()) == {"DONE": len(bots)}
    assert_none_joined_twice(installed, set(bots))
    await none_left("slots that are not idle", lambda: not_idle(installed), within_s=LEASE_S + 30)
    await none_left("processes left over", installed.left_over, within_s=60)
    assert_settled(installed.database_url)


async def outage(postgres: TestPostgres, server: Server) -> None:
    """Kill PostgreSQL, see what `/readyz` says while it is gone, and start it again."""
    loop = asyncio.get_running_loop()
    await asyncio.to_thread(postgres.kill)
    ends_at = loop.time() + DOWN_S
    answers: list[httpx.Response] = []
    while loop.time() < ends_at or not answers:
        answers.append(await get(f"{server.url}/readyz"))
        await asyncio.sleep(0.1)
    assert {answer.status_code for answer in answers} == {503}
    assert all(answer.json()["problem"] and not answer.json()["ready"] for answer in answers)
    assert (await get(f"{server.url}/healthz")).status_code == 200
    await asyncio.to_thread(postgres.restart)
    await server.is_ready()


async def bots_done(user: httpx.AsyncClient, count: int) -> None:
    async def missing() -> range:
        return range(sum(status == "DONE" for _, status in await bots_of([user])), count)

    await none_left("bots that should be done", missing, within_s=LEASE_S + 60)


def assert_told_why(refusals: list[httpx.Response]) -> None:
    """A request that met the outage was answered as the contract says, or waited it out."""
    for refusal in refusals:
        assert refusal.status_code == 503, refusal.text
        assert refusal.headers["content-type"] == "application/problem+json"
        assert "retry-after" in refusal.headers
