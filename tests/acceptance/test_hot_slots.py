"""Hot slots of a real server: the demo bot waits on standby and gets its bot through the poll."""

import asyncio
from pathlib import Path
from typing import Any

import httpx

from tests.support.server import Installation, Server, installation, none_left

BOT = {
    "meetingUrl": "https://meet.example.org/hot",
    "platform": "google-meet",
    "botData": {"joinSeconds": 0, "staySeconds": 600},
}


async def until(condition: Any, *, within_s: float = 90.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.05)


def ready(hot: Installation) -> int:
    return int(hot.rows("SELECT count(*) FROM bot_pool_slots WHERE standby = 'ready'")[0][0])


async def create(client: httpx.AsyncClient) -> int:
    response = await client.post("/v1/bots", json=BOT)
    assert response.status_code == 201, response.text
    return int(response.json()["bot"]["id"])


async def test_demo_bot_waits_on_standby_and_joins_when_it_gets_its_bot(
    database_url: str, tmp_path: Path
) -> None:
    settings = {
        "pools.google-meet.max_size": "3",
        "pools.google-meet.warm.hot": "2",
        "pools.google-meet.warm.handover_timeout_s": "60",
    }
    async with installation(database_url, tmp_path, settings) as hot:
        first = await hot.serve()
        second: Server = await hot.serve()
        await until(lambda: ready(hot) == 2)
        async with hot.client(first) as one, hot.client(second) as two:
            warm = (await one.get("/v1/pools/google-meet")).json()["pool"]["warm"]
            assert (warm["hotTarget"], warm["hotReady"], warm["reason"]) == (2, 2, "floor")
            slots = (await one.get("/v1/slots")).json()["slots"]
            assert [slot["standby"] for slot in slots] == ["ready", "ready"]
            bots = [await create(one), await create(two)]
            for bot in bots:
                await until(
                    lambda bot=bot: hot.rows(
                        "SELECT 1 FROM assignments a JOIN bots b ON b.id = a.bot_id"
                        " WHERE a.bot_id = %s AND a.run_id < a.id AND a.boot_id IS NOT NULL"
                        " AND b.status = 'IN_CALL'",
                        bot,
                    )
                )
            logs = (await one.get(f"/v1/bots/{bots[0]}/logs")).text
            assert "joining meet.example.org" in logs
            for bot in bots:
                assert (await one.delete(f"/v1/bots/{bot}")).status_code == 202
            await until(lambda: ready(hot) == 2)
            cold = hot.rows("SELECT count(*) FROM assignments WHERE run_id IS NULL")
            assert cold == [(0,)], "no bot started cold"
            await one.post("/v1/pools/google-meet/drain")
            await none_left("processes", hot.left_over, within_s=90)
