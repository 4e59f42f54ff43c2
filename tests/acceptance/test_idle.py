"""What an idle server costs: queries, processor time, memory. PostgreSQL itself is not counted.

Every statement counts, also BEGIN and the like: the server is told to log those of this database.
"""

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import psycopg
import pytest
from psycopg import sql

from botpool.store.migrations import migrate
from tests.support.postgres import TestPostgres
from tests.support.server import Installation, Server, installation, none_left

pytestmark = pytest.mark.alone

WATCHED_S = 16.0
"""A round of everything that happens by itself, but of what happens once a minute."""
MOST_TIMES = 5
QUERIES_A_SECOND = 5.0
SHARE_OF_A_CORE = 0.02
WAKE_UPS_A_SECOND = 20.0
MEMORY = 150 * 1024**2
TIMES_A_BARE_LOOP = 2.5
BARE_LOOP = """
import asyncio, sys, time, psycopg
async def main(url, seconds):
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        ends_at, before, turn = time.monotonic() + seconds, time.process_time(), 0
        while time.monotonic() < ends_at:
            await asyncio.sleep(0.25)
            turn += 1
            if turn % 2:
                await (await connection.execute('SELECT * FROM pg_stat_activity')).fetchall()
        print((time.process_time() - before) / seconds)
asyncio.run(main(sys.argv[1], float(sys.argv[2])))
"""
"""Four wake-ups and two queries a second, and nothing else."""
SETTLING_S = 3.0
"""After the last request: time for what it set off, such as a connection that is let go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    queries_a_second: float
    share_of_a_core: float
    share_of_a_bare_loop: float
    """What a loop costs here and now that does nothing but wake up and ask as often."""
    wake_ups_a_second: float
    memory: int
    statements: Counter[str]


@pytest.fixture
async def idle_server(postgres: TestPostgres, tmp_path: Path) -> AsyncIterator[Installation]:
    """With the three pools that everybody has by default."""
    url = postgres.create_database()
    migrate(url)
    log_statements(url)
    async with installation(url, tmp_path) as installed:
        await installed.serve()
        yield installed
    postgres.drop_database(url)


async def test_an_idle_server_costs_next_to_nothing(
    postgres: TestPostgres, idle_server: Installation
) -> None:
    assert_cheap(await cheapest(postgres, idle_server.servers[0]))


@pytest.mark.long
async def test_idle_slots_cost_nothing_more(
    postgres: TestPostgres, idle_server: Installation
) -> None:
    (server,) = idle_server.servers
    await make_idle_slots(idle_server, 5)
    assert_cheap(await cheapest(postgres, server))


def assert_cheap(cost: Cost) -> None:
    assert cost.queries_a_second < QUERIES_A_SECOND, cost
    assert is_cheap(cost), cost
    assert cost.wake_ups_a_second < WAKE_UPS_A_SECOND, cost
    assert cost.memory <= MEMORY, cost
    # A server that asks nothing at all has died, or its statements were not logged.
    assert cost.queries_a_second > 0.5, cost


async def cheapest(postgres: TestPostgres, server: Server) -> Cost:
    """The first whole round that is cheap enough, else the last of some.

    Wake-ups and queries are the same in each. Processor time is not: whatever else this machine,
    or the one below it, does in the meantime is added to it, and nothing is ever taken away.
    """
    await asyncio.sleep(SETTLING_S)
    for _ in range(MOST_TIMES):
        cost = await measure(postgres, server)
        if is_cheap(cost):
            break
    return cost


def is_cheap(cost: Cost) -> bool:
    """Little; or, on a machine where waking up is dear in itself, little more than that."""
    bare = cost.share_of_a_bare_loop
    return cost.share_of_a_core < max(SHARE_OF_A_CORE, TIMES_A_BARE_LOOP * bare)


async def measure(postgres: TestPostgres, server: Server) -> Cost:
    """What was asked of the database and used of a core, over the whole time."""
    process = psutil.Process(server.process.pid)
    log = postgres.directory / "log"
    loop = asyncio.get_running_loop()
    woken = process.num_ctx_switches().voluntary
    logged, began_at, before = log.stat().st_size, loop.time(), process.cpu_times()
    bare = await asyncio.create_subprocess_exec(
        sys.executable, "-c", BARE_LOOP, postgres.url(), str(WATCHED_S), stdout=PIPE
    )
    await asyncio.sleep(WATCHED_S)
    after, passed_s = process.cpu_times(), loop.time() - began_at
    woken = process.num_ctx_switches().voluntary - woken
    statements = statements_in(log.read_bytes()[logged:].decode())
    return Cost(
        queries_a_second=statements.total() / passed_s,
        share_of_a_core=(after.user + after.system - before.user - before.system) / passed_s,
        share_of_a_bare_loop=float((await bare.communicate())[0]),
        wake_ups_a_second=woken / passed_s,
        memory=process.memory_info().rss,
        statements=statements,
    )


def log_statements(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        name = sql.Identifier(connection.info.dbname)
        connection.execute(sql.SQL("ALTER DATABASE {} SET log_statement = 'all'").format(name))


def statements_in(log: str) -> Counter[str]:
    """Each logged execution by its first line: the comment that says what it is for."""
    found = Counter[str]()
    for line in log.splitlines():
        _, marked, rest = line.partition(" LOG:  ")
        kind, _, statement = rest.partition(": ")
        if marked and kind.split(" ")[0] in ("execute", "statement"):
            found[statement] += 1
    return found


async def make_idle_slots(installed: Installation, count: int) -> None:
    """Send that many bots at once, and wait until their slots are idle again."""
    short = {
        "meetingUrl": "https://meet.google.com/abc-defg-hij",
        "botData": {"joinSeconds": 0, "staySeconds": 0},
    }
    async with installed.client(installed.servers[0]) as user:
        answers = [await user.post("/v1/bots", json=short) for _ in range(count)]
    assert [answer.status_code for answer in answers] == [201] * count

    async def not_idle() -> list[tuple[str, ...]]:
        return installed.rows("SELECT slot_name, status FROM bot_pool_slots WHERE status <> 'idle'")

    await none_left("slots that are not idle", not_idle, within_s=60)
    assert installed.rows("SELECT count(*) > 0 FROM bot_pool_slots") == [(True,)]
