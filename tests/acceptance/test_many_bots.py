"""Many simultaneous bots from four client processes, against two replicas and an empty pool.

The bots are demo bots in separate processes: they run until they are asked to leave, and report
their own end. The tests run on the newest and on an older PostgreSQL.
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

from botpool.store.migrator import migrate
from tests.support.invariants import assert_invariants, assert_settled
from tests.support.postgres import TestPostgres
from tests.support.server import FINAL, Installation, client, installation, none_left

pytestmark = [pytest.mark.alone, pytest.mark.timeout(600)]

CLIENTS = 4
POOL = 100
SETTINGS = {
    "pools.google-meet.max_size": str(POOL),
    # Programs start after all requests, because a hundred of them use all of a small machine.
    # Until then the test can catch a slot that becomes busy too early.
    "backends.process.first_start_s": "5",
    "deploy.poll_interval_s": "1",
    "agent.heartbeat_interval_ms": "3000",
    # Two hundred programs share this machine, so a slow one must not be stopped.
    "agent.leave_grace_s": "300",
    "queue.default_timeout_ms": "600000",
}
REQUEST = {
    "meetingUrl": "https://meet.google.com/abc-defg-hij",
    "botData": {"joinSeconds": 0, "staySeconds": 3600},
}
IN_CALL = frozenset({"JOINING_CALL", "IN_WAITING_ROOM", "IN_CALL"})
Response = Mapping[str, Any]

together: Barrier


def on(server: str, *, long: str) -> pytest.MarkDecorator:
    """Run the test on one server, and with `make test-long` also on the other."""
    both = [server, pytest.param(long, marks=pytest.mark.long)]
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


@on("debian_postgres", long="postgres")
async def test_ten_simultaneous_bots_get_the_first_ten_slots(two_replicas: Installation) -> None:
    async with containers_counted(two_replicas) as counts:
        responses = await post_at_once(two_replicas, 10)
        assert sorted(response["bot"]["slotName"] for response in responses) == slot_names(10)
        assert {response["bot"]["status"] for response in responses} == {"DEPLOYING"}
        assert not any("queuePosition" in response for response in responses)
        await wait_until_all_run(two_replicas, 10)
        await stop_all(two_replicas, 10)
    assert max(counts) == 10


@on("postgres", long="debian_postgres")
@pytest.mark.timeout(900)
async def test_two_hundred_simultaneous_bots_fill_the_pool_and_its_queue(
    two_replicas: Installation,
) -> None:
    async with containers_counted(two_replicas) as counts:
        responses = await post_at_once(two_replicas, 200)
        by_status = Counter(response["bot"]["status"] for response in responses)
        assert by_status == {"DEPLOYING": 100, "QUEUED": 100}
        assigned = [response for response in responses if response["bot"]["status"] == "DEPLOYING"]
        waiting = [response for response in responses if response["bot"]["status"] == "QUEUED"]
        assert sorted(response["bot"]["slotName"] for response in assigned) == slot_names(100)
        positions = {response["queuePosition"]: response["bot"]["id"] for response in waiting}
        assert sorted(positions) == list(range(1, 101))
        for server in two_replicas.servers:
            assert await queue_of(two_replicas, server.url) == positions
        await wait_until_all_run(two_replicas, 100)
        assert await queue_of(two_replicas, two_replicas.servers[0].url) == positions
        await stop_all(two_replicas, 200)
    assert max(counts) == 100


def slot_names(count: int) -> list[str]:
    return [f"pool-google-meet-{number:03d}" for number in range(1, count + 1)]


async def queue_of(installed: Installation, url: str) -> dict[int, int]:
    """Return the bots by position, and check that the list is in that order."""
    async with client(url, installed.key) as user:
        response = await user.get("/v1/queue", params={"platform": "google-meet"})
    entries = response.json()["queue"]
    assert [entry["position"] for entry in entries] == list(range(1, len(entries) + 1))
    return {entry["position"]: entry["botId"] for entry in entries}


async def post_at_once(installed: Installation, count: int) -> list[Response]:
    """Request bots from several processes at the same time, each from all replicas."""
    context = multiprocessing.get_context("spawn")
    urls = [server.url for server in installed.servers]
    shares = [count // CLIENTS + (number < count % CLIENTS) for number in range(CLIENTS)]
    loop = asyncio.get_running_loop()
    with ProcessPoolExecutor(
        CLIENTS, context, initializer=set_barrier, initargs=(context.Barrier(CLIENTS),)
    ) as clients:
        responses = await asyncio.gather(
            *(
                loop.run_in_executor(clients, post_share, urls, installed.key, share)
                for share in shares
            )
        )
    return [response for share in responses for response in share]


def set_barrier(barrier: Barrier) -> None:
    """Set the barrier in a client process."""
    global together
    together = barrier


def post_share(urls: Sequence[str], key: str, count: int) -> list[Response]:
    """In a client process: request that many bots at once, spread over the replicas."""

    async def post() -> list[Response]:
        users = [client(url, key) for url in urls]
        await asyncio.gather(*(user.get("/healthz") for user in users))
        together.wait(150)
        responses = await asyncio.gather(
            *(users[n % len(users)].post("/v1/bots", json=REQUEST) for n in range(count))
        )
        await asyncio.gather(*(user.aclose() for user in users))
        refused = [response.text for response in responses if response.status_code != 201]
        assert not refused, f"{len(refused)} of {count} were refused, first: {refused[0]}"
        return [response.json() for response in responses]

    return asyncio.run(post())


@asynccontextmanager
async def containers_counted(installed: Installation) -> AsyncIterator[list[int]]:
    """Count the running containers ten times a second."""
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


async def wait_until_all_run(installed: Installation, count: int) -> None:
    """Wait until every assigned bot runs; until then its slot must be `deploying`."""
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

        await none_left("slots that are not busy", not_busy, within_s=300, every_s=0.5)
    assert_invariants(installed.database_url)
    programs = [process for process in installed.processes() if process.environ().get("BOT_DATA")]
    assert len({process.environ()["BOTPOOL_CONTAINER_ID"] for process in programs}) == count
    assert len(programs) == count


async def stop_all(installed: Installation, count: int) -> None:
    """Ask every running bot to leave, until all bots have reported their end."""
    asked: set[int] = set()
    async with installed.client(installed.servers[1]) as user:

        async def unfinished() -> Counter[str]:
            bots = (await user.get("/v1/bots", params={"limit": 500})).json()["bots"]
            assert len(bots) == count
            running = {bot["id"] for bot in bots if bot["status"] in IN_CALL} - asked
            responses = await asyncio.gather(*(user.delete(f"/v1/bots/{bot}") for bot in running))
            refused = [response.text for response in responses if response.status_code != 202]
            assert not refused, f"{len(refused)} could not be asked to leave: {refused[0]}"
            asked.update(running)
            return Counter(bot["status"] for bot in bots if bot["status"] not in FINAL)

        await none_left("bots that have not ended", unfinished, within_s=400, every_s=0.5)
        bots = (await user.get("/v1/bots", params={"limit": 500})).json()["bots"]
    assert Counter(bot["status"] for bot in bots) == {"DONE": count}
    assert {bot["attempts"] for bot in bots} == {1}

    async def unreleased() -> list[tuple[str, ...]]:
        return installed.rows("SELECT slot_name, status FROM bot_pool_slots WHERE status <> 'idle'")

    await none_left("slots that are not idle", unreleased, within_s=120)
    await none_left("processes left over", installed.left_over, within_s=120)
    assert_settled(installed.database_url)
    assert_busy_after_evidence(installed, count)


def assert_busy_after_evidence(installed: Installation, count: int) -> None:
    reasons = installed.rows(
        "SELECT from_state, reason, count(*) FROM history"
        " WHERE kind = 'slot.status' AND to_state = 'busy' GROUP BY 1, 2"
    )
    assert sum(row[2] for row in reasons) == count
    assert {row[:2] for row in reasons} <= {
        ("deploying", "observed running"),
        ("deploying", "its agent called"),
    }
