"""The load of an idle server: queries, CPU time and memory, without those of PostgreSQL.

The test counts every statement in PostgreSQL's log, including BEGIN.
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

from botpool.store.migrator import migrate
from tests.support.postgres import TestPostgres
from tests.support.server import Installation, Server, installation, none_left

pytestmark = pytest.mark.alone

WATCHED_S = 16.0
"""Covers every background loop with an interval below a minute."""
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
"""A loop with four wake-ups and two queries a second."""
SETTLING_S = 3.0
"""Time for work that follows the last request, such as closing a connection."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    queries_a_second: float
    share_of_a_core: float
    share_of_a_bare_loop: float
    """The CPU share of the bare loop at the same time."""
    wake_ups_a_second: float
    memory: int
    statements: Counter[str]


@pytest.fixture
async def idle_server(postgres: TestPostgres, tmp_path: Path) -> AsyncIterator[Installation]:
    """A server with the three default pools."""
    url = postgres.create_database()
    migrate(url)
    log_statements(url)
    async with installation(url, tmp_path) as installed:
        await installed.serve()
        yield installed
    postgres.drop_database(url)


async def test_idle_server_uses_few_queries_and_little_cpu(
    postgres: TestPostgres, idle_server: Installation
) -> None:
    assert_cheap(await cheapest(postgres, idle_server.servers[0]))


@pytest.mark.long
async def test_idle_slots_add_no_load(postgres: TestPostgres, idle_server: Installation) -> None:
    (server,) = idle_server.servers
    await create_idle_slots(idle_server, 5)
    assert_cheap(await cheapest(postgres, server))


def assert_cheap(cost: Cost) -> None:
    assert cost.queries_a_second < QUERIES_A_SECOND, cost
    assert is_cheap(cost), cost
    assert cost.wake_ups_a_second < WAKE_UPS_A_SECOND, cost
    assert cost.memory <= MEMORY, cost
    # Without any query the server has died, or its statements are not logged.
    assert cost.queries_a_second > 0.5, cost


async def cheapest(postgres: TestPostgres, server: Server) -> Cost:
    """Measure up to `MOST_TIMES` times and return the first cheap round, else the last one.

    Other processes on the machine can increase the measured CPU time, but not reduce it.
    """
    await asyncio.sleep(SETTLING_S)
    for _ in range(MOST_TIMES):
        cost = await measure(postgres, server)
        if is_cheap(cost):
            break
    return cost


def is_cheap(cost: Cost) -> bool:
    """Compare the CPU share with a fixed limit and with the bare loop on the same machine."""
    bare = cost.share_of_a_bare_loop
    return cost.share_of_a_core < max(SHARE_OF_A_CORE, TIMES_A_BARE_LOOP * bare)


async def measure(postgres: TestPostgres, server: Server) -> Cost:
    """Measure the queries and the CPU time of the server over `WATCHED_S`."""
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
    """Count the logged executions by the first line of the statement."""
    found = Counter[str]()
    for line in log.splitlines():
        _, marked, rest = line.partition(" LOG:  ")
        kind, _, statement = rest.partition(": ")
        if marked and kind.split(" ")[0] in ("execute", "statement"):
            found[statement] += 1
    return found


async def create_idle_slots(installed: Installation, count: int) -> None:
    """Request that many bots and wait until their slots are idle."""
    short = {
        "meetingUrl": "https://meet.google.com/abc-defg-hij",
        "botData": {"joinSeconds": 0, "staySeconds": 0},
    }
    async with installed.client(installed.servers[0]) as user:
        responses = [await user.post("/v1/bots", json=short) for _ in range(count)]
    assert [response.status_code for response in responses] == [201] * count

    async def not_idle() -> list[tuple[str, ...]]:
        return installed.rows("SELECT slot_name, status FROM bot_pool_slots WHERE status <> 'idle'")

    await none_left("slots that are not idle", not_idle, within_s=150)
    assert installed.rows("SELECT count(*) > 0 FROM bot_pool_slots") == [(True,)]
