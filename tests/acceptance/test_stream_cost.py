"""The server's processor time for ten open dashboards.

The figures go to `artefacts/dashboards.txt`.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import psutil
import psycopg
import pytest

from tests.support.http_server import bearer
from tests.support.server import Installation, installation
from tests.support.sse import opened

DASHBOARDS = 10
CHANGES_A_SECOND = 50
WATCHED_S = 20
SHARE_OF_A_CORE = 0.10
FIGURES = Path(__file__).parents[2] / "artefacts" / "dashboards.txt"

POOLS_S = 3.0
HOUR_S = 15.0
"""Seconds between requests of a page: see `live-updates.js` and `overview.js`."""


@pytest.mark.long
async def test_ten_dashboards_use_less_than_a_tenth_of_a_core(
    database_url: str, tmp_path: Path
) -> None:
    async with installation(database_url, tmp_path) as installed:
        server = await installed.serve()
        process = psutil.Process(server.process.pid)
        alone = await share_of_a_core(installed, process)
        async with watched(installed) as received:
            streams = await share_of_a_core(installed, process) - alone
        async with watched(installed) as received_again, asking(installed):
            pages = await share_of_a_core(installed, process) - alone
    FIGURES.parent.mkdir(exist_ok=True)
    FIGURES.write_text(
        f"{CHANGES_A_SECOND} changes a second, of one core: {alone:.1%} without a dashboard, "
        f"{streams:.1%} more with {DASHBOARDS} streams, {pages:.1%} more with {DASHBOARDS} "
        f"dashboards (streams and the pages' own requests)\n"
    )
    assert received == received_again == [WATCHED_S * CHANGES_A_SECOND + 1] * DASHBOARDS
    assert pages < SHARE_OF_A_CORE, FIGURES.read_text()


@asynccontextmanager
async def watched(installed: Installation) -> AsyncIterator[list[int]]:
    """Open ten streams; at the end, the number of changes that each of them received."""
    begun = [asyncio.Event() for _ in range(DASHBOARDS)]
    watching = [asyncio.create_task(watch(installed, ready)) for ready in begun]
    for ready in begun:
        await ready.wait()
    received: list[int] = []
    yield received
    async with await psycopg.AsyncConnection.connect(installed.database_url) as connection:
        await change(connection, "the last")
    received += await asyncio.gather(*watching)


async def watch(installed: Installation, ready: asyncio.Event) -> int:
    """The number of changes that a stream received."""
    async with opened(installed.servers[0].url, bearer(installed.key)) as stream:
        ready.set()
        return len(await stream.until("change", kind="the last"))


@asynccontextmanager
async def asking(installed: Installation) -> AsyncIterator[None]:
    """Send the other requests of ten pages with the overview."""
    async with installed.client(installed.servers[0]) as client:
        pools = (await client.get("/v1/pools")).json()["pools"]
        hours = {f"/v1/pools/{pool['platform']}/activity?minutes=60": HOUR_S for pool in pools}
        tasks = [
            asyncio.create_task(ask(client, {"/v1/pools": POOLS_S, **hours}))
            for _ in range(DASHBOARDS)
        ]
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def ask(client: httpx.AsyncClient, paths: Mapping[str, float]) -> None:
    async def again_and_again(path: str, every_s: float) -> None:
        while True:
            (await client.get(path)).raise_for_status()
            await asyncio.sleep(every_s)

    await asyncio.gather(*(again_and_again(path, every_s) for path, every_s in paths.items()))


async def share_of_a_core(installed: Installation, process: psutil.Process) -> float:
    """The share of one core that the server uses while 50 changes per second happen."""
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
