"""PostgreSQL is killed under load and restarted, twice, while the replica keeps running.

The first outage happens while bots are in their meetings and others wait, the second while bots
end, so that it interrupts starts, reports, releases and hand-overs. A client requests bots all the
time and retries requests without a response under the same key.
"""

import asyncio
import shlex
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
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
from tests.support.server import FINAL, Installation, Server, get, installation, none_left

DOWN_S = 3.0
LEASE_S = 60.0
"""A replica continues an interrupted step after the end of its lease."""
POOL = 12


@pytest.fixture
def own_postgres() -> Iterator[TestPostgres]:
    with TestPostgres() as server:
        yield server


@pytest.fixture
async def installed(own_postgres: TestPostgres, tmp_path: Path) -> AsyncIterator[Installation]:
    url = own_postgres.create_database()
    migrate(url)
    bot = [sys.executable, str(Path(__file__).with_name("recording_bot.py")), str(tmp_path)]
    settings = {
        "pools.google-meet.max_size": str(POOL),
        "backends.process.command": shlex.join(bot),
        "agent.heartbeat_interval_ms": "1000",
    }
    async with installation(url, tmp_path, settings) as installed:
        yield installed


@pytest.mark.timeout(900)
async def test_killed_postgres_loses_no_bot(
    own_postgres: TestPostgres, installed: Installation
) -> None:
    server = await installed.serve()
    async with installed.client(server, timeout=20.0) as user:
        load = LoadClient([user])
        posting = asyncio.create_task(load.post_until_stopped())
        await wait_for_joined(installed, POOL // 2)
        await load.wait_for_accepted(2 * POOL)
        await outage(own_postgres, server)
        (installed.data_dir / MEETING_OVER).touch()
        await wait_for_done(user, POOL)
        await outage(own_postgres, server)
        await load.wait_for_accepted(5 * POOL)
        load.stopping = True
        await posting

        async def unfinished() -> dict[int, str]:
            return {bot: status for bot, status in await bots_of([user]) if status not in FINAL}

        await none_left("bots that have not wait_for_exit", unfinished, within_s=LEASE_S + 90)
        bots = dict(await bots_of([user]))
    assert_contract_errors(load.error_responses)
    assert sorted(load.accepted.values()) == sorted(bots), "a bot is lost or created twice"
    assert Counter(bots.values()) == {"DONE": len(bots)}
    assert_none_joined_twice(installed, set(bots))
    await none_left(
        "slots that are not idle", lambda: slots_not_idle(installed), within_s=LEASE_S + 30
    )
    await none_left("processes left over", installed.left_over, within_s=60)
    assert_settled(installed.database_url)


async def outage(postgres: TestPostgres, server: Server) -> None:
    """Kill PostgreSQL, check `/readyz` during the outage, and start PostgreSQL again."""
    loop = asyncio.get_running_loop()
    await asyncio.to_thread(postgres.kill)
    ends_at = loop.time() + DOWN_S
    responses: list[httpx.Response] = []
    while loop.time() < ends_at or not responses:
        responses.append(await get(f"{server.url}/readyz"))
        await asyncio.sleep(0.1)
    assert {response.status_code for response in responses} == {503}
    assert all(
        response.json()["problem"] and not response.json()["ready"] for response in responses
    )
    assert (await get(f"{server.url}/healthz")).status_code == 200
    await asyncio.to_thread(postgres.restart)
    await server.wait_until_ready()


async def wait_for_done(user: httpx.AsyncClient, count: int) -> None:
    async def missing() -> range:
        return range(sum(status == "DONE" for _, status in await bots_of([user])), count)

    await none_left("bots that should be DONE", missing, within_s=LEASE_S + 60)


def assert_contract_errors(error_responses: list[httpx.Response]) -> None:
    """Check that requests during the outage got the error that the contract describes."""
    for refusal in error_responses:
        assert refusal.status_code == 503, refusal.text
        assert refusal.headers["content-type"] == "application/problem+json"
        assert "retry-after" in refusal.headers
