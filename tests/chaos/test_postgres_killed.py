"""PostgreSQL is killed under load and started again, twice; nobody touches Botpool meanwhile.

First while bots are in their meetings and others wait, then while all of them end, so that starts,
reports, releases and hand-overs are cut off in the middle. A client goes on posting all the time
and repeats what was not answered, under the same key, as clients do.
"""

import asyncio
import itertools
import shlex
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from server import FINAL, Installation, Server, get, installation, none_left
from witness_bot import MEETING_OVER, WITNESSES

from botpool.store.migrations import migrate

from invariants import assert_settled
from postgres import TestPostgres

DOWN_S = 3.0
LEASE_S = 60.0
"""What was cut off inside a leased step is taken up when its lease has ended."""
POOL = 12
POSTERS = 3
BETWEEN_POSTS_S = 0.25


@dataclass(slots=True)
class Poster:
    """A client that posts bots all the time, several at once, and gives up on none."""

    user: httpx.AsyncClient
    accepted: dict[str, int] = field(default_factory=dict)
    """By idempotency key."""
    refusals: list[httpx.Response] = field(default_factory=list)
    enough: bool = False

    async def post_until_enough(self) -> None:
        numbers = itertools.count(1)

        async def one_after_the_other() -> None:
            while not self.enough:
                await self.post(f"meeting-{next(numbers)}")
                await asyncio.sleep(BETWEEN_POSTS_S)

        await asyncio.gather(*(one_after_the_other() for _ in range(POSTERS)))

    async def post(self, key: str) -> None:
        body = {"meetingUrl": "https://meet.google.com/abc-defg-hij"}
        while key not in self.accepted:
            with suppress(httpx.TransportError):
                answer = await self.user.post(
                    "/v1/bots", json=body, headers={"Idempotency-Key": key}
                )
                if answer.status_code in (200, 201):
                    self.accepted[key] = answer.json()["bot"]["id"]
                    return
                self.refusals.append(answer)
            await asyncio.sleep(BETWEEN_POSTS_S)


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
        poster = Poster(user)
        posting = asyncio.create_task(poster.post_until_enough())
        await bots_in_call(installed, POOL // 2)
        await bots_accepted(poster, 2 * POOL)
        await outage(own_postgres, server)
        (installed.data_dir / MEETING_OVER).touch()
        await bots_done(user, POOL)
        await outage(own_postgres, server)
        await bots_accepted(poster, 5 * POOL)
        poster.enough = True
        await posting

        async def unfinished() -> dict[int, str]:
            return {bot: status for bot, status in await bots_of(user) if status not in FINAL}

        await none_left("bots that have not ended", unfinished, within_s=LEASE_S + 90)
        bots = dict(await bots_of(user))
    assert_told_why(poster.refusals)
    assert sorted(poster.accepted.values()) == sorted(bots), "a bot was lost, or made twice"
    assert Counter(bots.values()) == {"DONE": len(bots)}
    assert_none_joined_twice(installed, set(bots))
    await none_left("slots that are not idle", lambda: not_idle(installed), within_s=LEASE_S + 30)
    await none_left("processes left over", installed.left_over, within_s=10)
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


async def bots_in_call(installed: Installation, count: int) -> None:
    async def missing() -> range:
        found = sum(line.startswith("joined ") for line in witnessed(installed))
        return range(found, count)

    await none_left("bots missing from their meetings", missing, within_s=60)


async def bots_accepted(poster: Poster, count: int) -> None:
    async def missing() -> range:
        return range(len(poster.accepted), count)

    await none_left("bots that should be accepted", missing, within_s=60)


async def bots_done(user: httpx.AsyncClient, count: int) -> None:
    async def missing() -> range:
        return range(sum(status == "DONE" for _, status in await bots_of(user)), count)

    await none_left("bots that should be done", missing, within_s=LEASE_S + 60)


async def bots_of(user: httpx.AsyncClient) -> list[tuple[int, str]]:
    answer = await user.get("/v1/bots", params={"limit": 500})
    assert answer.status_code == 200, answer.text
    assert "nextCursor" not in answer.json() or answer.json()["nextCursor"] is None
    return [(bot["id"], bot["status"]) for bot in answer.json()["bots"]]


async def not_idle(installed: Installation) -> list[tuple[str, ...]]:
    return installed.rows("SELECT slot_name, status FROM bot_pool_slots WHERE status <> 'idle'")


def witnessed(installed: Installation) -> list[str]:
    written = installed.data_dir / WITNESSES
    return written.read_text().splitlines() if written.exists() else []


def assert_told_why(refusals: list[httpx.Response]) -> None:
    """A request that met the outage was answered as the contract says, or waited it out."""
    for refusal in refusals:
        assert refusal.status_code == 503, refusal.text
        assert refusal.headers["content-type"] == "application/problem+json"
        assert "retry-after" in refusal.headers


def assert_none_joined_twice(installed: Installation, bots: set[int]) -> None:
    for event in ("started", "joined"):
        lines = [line.split() for line in witnessed(installed) if line.startswith(event)]
        runs = Counter(int(bot) for _, bot, _ in lines)
        assert runs == dict.fromkeys(bots, 1), f"{event} other than once: {runs - Counter(bots)}"
