"""What ten open dashboards cost the server: its processor time, which no neighbour adds to much."""

import asyncio
import logging
from pathlib import Path

import psutil
import psycopg
import pytest
from http_server import bearer
from server import Installation, installation
from sse import opened

_log = logging.getLogger(__name__)
STREAMS = 10
CHANGES_A_SECOND = 50
WATCHED_S = 20
SHARE_OF_A_CORE = 0.10


@pytest.mark.long
async def test_ten_streams_cost_less_than_a_tenth_of_a_core(
    database_url: str, tmp_path: Path
) -> None:
    async with installation(database_url, tmp_path) as installed:
        server = await installed.serve()
        process = psutil.Process(server.process.pid)
        idle = await share_of_a_core(installed, process)
        begun = [asyncio.Event() for _ in range(STREAMS)]
        watching = [asyncio.create_task(watch(installed, ready)) for ready in begun]
        for ready in begun:
            await ready.wait()
        watched = await share_of_a_core(installed, process)
        async with await psycopg.AsyncConnection.connect(database_url) as connection:
            await change(connection, "the last")
        told = await asyncio.gather(*watching)
    _log.info("%.1f%% of a core idle, %.1f%% with streams", idle * 100, watched * 100)
    assert told == [WATCHED_S * CHANGES_A_SECOND + 1] * STREAMS
    assert watched - idle < SHARE_OF_A_CORE


async def watch(installed: Installation, ready: asyncio.Event) -> int:
    """How many changes a stream told."""
    async with opened(installed.servers[0].url, bearer(installed.key)) as stream:
        ready.set()
        return len(await stream.until("change", kind="the last"))


async def share_of_a_core(installed: Installation, process: psutil.Process) -> float:
    """While changes happen, as many as at ten o'clock. A machine that is slower counts as worse."""
    before = process.cpu_times()
    async with await psycopg.AsyncConnection.connect(
        installed.database_url, autocommit=True
    ) as connection:
        for _ in range(WATCHED_S * CHANGES_A_SECOND):
            await change(connection, "x")
            await asyncio.sleep(1 / CHANGES_A_SECOND)
    after = process.cpu_times()
    return (after.user + after.system - before.user - before.system) / WATCHED_S


async def change(connection: psycopg.AsyncConnection, kind: str) -> None:
    await connection.execute(
        "INSERT INTO history (kind, slot_name, from_state, to_state, reason, correlation_id)"
        " VALUES (%s, 'pool-google-meet-001', 'deploying', 'busy', 'test', repeat('c', 32))",
        [kind],
    )
