"""Many bots at once into an empty pool, from four processes, against two replicas.

Everything is real: the bots are demo bots in processes of their own, they stay until they are asked
to leave, and they end by their own report. The same on the newest and on an older PostgreSQL.
"""

import asyncio
import multiprocessing
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import asynccontextmanager, suppress
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import pytest

from botpool.store.migrations import migrate
from tests.support.invariants import assert_invariants, assert_settled
from tests.support.postgres import TestPostgres
from tests.support.server import FINAL, Installation, client, installation, none_left

pytestmark = pytest.mark.alone

POSTERS = 4
POOL = 100
SETTINGS = {
    "pools.google-meet.max_size": str(POOL),
    # The programs come up when the posting is over: a hundred of them at once need all of a small
    # machine for a while. Until then every second is a chance to call a slot busy too early.
    "backends.process.first_start_s": "5",
    "deploy.poll_interval_s": "1",
    "agent.heartbeat_interval_ms": "3000",
    # Two hundred programs share this machine: the test is not about who is stopped for being slow.
    "agent.leave_grace_s": "300",
    "queue.default_timeout_ms": "600000",
}
REQUEST = {
    "meetingUrl": "https://meet.google.com/abc-defg-hij",
    "botData": {"joinSeconds": 0, "staySeconds": 3600},
}
IN_CALL = frozenset({"JOINING_CALL", "IN_WAITING_ROOM", "IN_CALL"})
Answer = Mapping[str, Any]

together: Barrier


def on(server: str, *, at_length: str) -> pytest.MarkDecorator:
    """The server that a test runs on, and the one for which there is time in test-long only."""
    both = [server, pytest.param(at_length, marks=pytest.mark.long)]
    return pytest.mark.parametrize("migrated_url", both, indirect=True)


@pytest.fixture
def migrated_url(request: pytest.FixtureRequest) -> str:
    server: TestPostgres = request.getfixturevalue(request.param)
    url = server.create_database()
    request.addfinalizer(lambda: server.drop_database(url))
    migrate(url)
    return url


@pytest.fixture
async def two_replicas(migrated_url: str, tmp_path: Path) -> AsyncIterator[Installation]:
    async with installation(migrated_url, tmp_path, SETTINGS) as installed:
        await asyncio.gather(installed.serve(), installed.serve())
        yield installed


@on("debian_postgres", at_length="postgres")
async def test_ten_bots_at_once_get_the_first_ten_slots(two_replicas: Installation) -> None:
    async with containers_counted(two_replicas) as counts:
        answers = await post_at_once(two_replicas, 10)
        assert sorted(answer["bot"]["slotName"] for answer in answers) == slot_names(10)
        assert {answer["bot"]["status"] for answer in answers} == {"DEPLOYING"}
        assert not any("queuePosition" in answer for answer in answers)
        await all_run(two_replicas, 10)
        await all_leave(two_replicas, 10)
    assert max(counts) == 10


@on("postgres", at_length="debian_postgres")
@pytest.mark.timeout(300)
async def test_two_hundred_bots_at_once_fill_the_pool_and_its_queue(
    two_replicas: Installation,
) -> None:
    async with containers_counted(two_replicas) as counts:
        answers = await post_at_once(two_replicas, 200)
        by_status = Counter(answer["bot"]["status"] for answer in answers)
        assert by_status == {"DEPLOYING": 100, "QUEUED": 100}
        placed = [answer for answer in answers if answer["bot"]["status"] == "DEPLOYING"]
        waiting = [answer for answer in answers if answer["bot"]["status"] == "QUEUED"]
        assert sorted(answer["bot"]["slotName"] for answer in placed) == slot_names(100)
        positions = {answer["queuePosition"]: answer["bot"]["id"] for answer in waiting}
        assert sorted(positions) == list(range(1, 101))
        for server in two_replicas.servers:
            assert await queue_of(two_replicas, server.url) == positions
        await all_run(two_replicas, 100)
        assert await queue_of(two_replicas, two_replicas.servers[0].url) == positions
        await all_leave(two_replicas, 200)
    assert max(counts) == 100


def slot_names(count: int) -> list[str]:
    return [f"pool-google-meet-{number:03d}" for number in range(1, count + 1)]


async def queue_of(installed: Installation, url: str) -> dict[int, int]:
    """Who stands where; the list itself must be in that order."""
    async with client(url, installed.key) as user:
        answer = await user.get("/v1/queue", params={"platform": "google-meet"})
    entries = answer.json()["queue"]
    assert [entry["position"] for entry in entries] == list(range(1, len(entries) + 1))
    return {entry["position"]: entry["botId"] for entry in entries}


async def post_at_once(installed: Installation, count: int) -> list[Answer]:
    """From several processes, each to all replicas, all at the same moment."""
    context = multiprocessing.get_context("spawn")
    urls = [server.url for server in installed.servers]
    shares = [count // POSTERS + (number < count % POSTERS) for number in range(POSTERS)]
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(
        POSTERS, context, initializer=meet_at, initargs=(context.Barrier(POSTERS),)
    ) as posters:
        answers = await asyncio.gather(
            *(
                loop.run_in_executor(posters, post_share, urls, installed.key, share)
                for share in shares
            )
        )
    return [answer for share in answers for answer in share]


def meet_at(barrier: Barrier) -> None:
    """In a poster's process: where all wait for each other."""
    global together
    together = barrier


def post_share(urls: Sequence[str], key: str, count: int) -> list[Answer]:
    """In a poster's process: post that many bots at once, spread over the replicas."""

    async def post() -> list[Answer]:
        users = [client(url, key) for url in urls]
        await asyncio.gather(*(user.get("/healthz") for user in users))
        together.wait(30)
        answers = await asyncio.gather(
            *(users[n % len(users)].post("/v1/bots", json=REQUEST) for n in range(count))
        )
        await asyncio.gather(*(user.aclose() for user in users))
        refused = [answer.text for answer in answers if answer.status_code != 201]
        assert not refused, f"{len(refused)} of {count} were refused, first: {refused[0]}"
        return [answer.json() for answer in answers]

    return asyncio.run(post())


@asynccontextmanager
async def containers_counted(installed: Installation) -> AsyncIterator[list[int]]:
    """How many containers ran, looked at ten times a second."""
    counts: list[int] = []

    async def count() -> None:
        while True:
            counts.append(len(installed.running()))
            await asyncio.sleep(0.1)

    counting = asyncio.create_task(count())
    try:
        yield counts
    finally:
        counting.cancel()
        with suppress(asyncio.CancelledError):
            await counting


async def all_run(installed: Installation, count: int) -> None:
    """Every placed bot comes to run in its own process; until then its slot is `deploying`."""
    async with installed.client(installed.servers[0]) as user:

        async def not_busy() -> dict[str, str]:
            slots = (await user.get("/v1/slots")).json()["slots"]
            assert len(slots) == count
            busy = {slot["containerId"] for slot in slots if slot["status"] == "busy"}
            early = busy - installed.running_programs()
            assert not early, f"busy before their program ran: {early}"
            rest = {slot["name"]: slot["status"] for slot in slots if slot["status"] != "busy"}
            assert set(rest.values()) <= {"deploying"}, rest
            return rest

        await none_left("slots that are not busy", not_busy, within_s=90, every_s=0.5)
    assert_invariants(installed.database_url)
    programs = [process for process in installed.processes() if process.environ().get("BOT_DATA")]
    assert len({process.environ()["BOTPOOL_CONTAINER_ID"] for process in programs}) == count
    assert len(programs) == count


async def all_leave(installed: Installation, count: int) -> None:
    """Ask every bot to leave as soon as it runs, until all of them have ended by themselves."""
    asked: set[int] = set()
    async with installed.client(installed.servers[1]) as user:

        async def staying() -> Counter[str]:
            bots = (await user.get("/v1/bots", params={"limit": 500})).json()["bots"]
            assert len(bots) == count
            running = {bot["id"] for bot in bots if bot["status"] in IN_CALL} - asked
            answers = await asyncio.gather(*(user.delete(f"/v1/bots/{bot}") for bot in running))
            refused = [answer.text for answer in answers if answer.status_code != 202]
            assert not refused, f"{len(refused)} could not be asked to leave: {refused[0]}"
            asked.update(running)
            return Counter(bot["status"] for bot in bots if bot["status"] not in FINAL)

        await none_left("bots that have not ended", staying, within_s=150, every_s=0.5)
        bots = (await user.get("/v1/bots", params={"limit": 500})).json()["bots"]
    assert Counter(bot["status"] for bot in bots) == {"DONE": count}
    assert {bot["attempts"] for bot in bots} == {1}

    async def unreleased() -> list[tuple[str, ...]]:
        return installed.rows("SELECT slot_name, status FROM bot_pool_slots WHERE status <> 'idle'")

    await none_left("slots that are not idle", unreleased, within_s=30)
    await none_left("processes left over", installed.left_over, within_s=10)
    assert_settled(installed.database_url)
    assert_seen_running_before_busy(installed, count)


def assert_seen_running_before_busy(installed: Installation, count: int) -> None:
    reasons = installed.rows(
        "SELECT from_state, reason, count(*) FROM history"
        " WHERE kind = 'slot.status' AND to_state = 'busy' GROUP BY 1, 2"
    )
    assert sum(row[2] for row in reasons) == count
    assert {row[:2] for row in reasons} <= {
        ("deploying", "observed running"),
        ("deploying", "its agent called"),
    }
