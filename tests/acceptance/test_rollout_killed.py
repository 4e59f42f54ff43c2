"""A rollout on real replicas and processes, which `kill -9` ends in the pull and in the canary."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from botpool.store.migrator import migrate
from tests.support.postgres import TestPostgres
from tests.support.server import FINAL, installation

LINK = "https://meet.google.com/abc-defg-hij"
SETTINGS = {
    "pools.google-meet.max_size": "6",
    "queue.poll_interval_ms": "100",
    "deploy.poll_interval_s": "1",
    "agent.heartbeat_interval_ms": "500",
}
ROLLOUTS = "/v1/pools/google-meet/rollouts"
DATA = {"joinSeconds": 0, "staySeconds": 0}


async def until(user: httpx.AsyncClient, path: str, is_over: Any) -> Any:
    """Read a path until its answer satisfies a condition."""
    async with asyncio.timeout(400):
        while not is_over(body := (await user.get(path)).json()):
            await asyncio.sleep(0.2)
    return body


async def meet(user: httpx.AsyncClient, bots: int) -> None:
    """Send bots into calls that end at once, and wait for their ends."""
    body = {"meetingUrl": LINK, "botData": DATA, "queueTimeoutMs": 600_000}
    sent = [(await user.post("/v1/bots", json=body)).json()["bot"]["id"] for _ in range(bots)]
    for bot in sent:
        await until(user, f"/v1/bots/{bot}", lambda body: body["bot"]["status"] in FINAL)


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_good_image_is_promoted_although_replicas_are_killed(
    postgres: TestPostgres, tmp_path: Path
) -> None:
    url = postgres.create_database()
    migrate(url)
    async with installation(url, tmp_path, SETTINGS) as installed:
        server = await installed.serve()
        async with installed.client(server) as user:
            request = {"image": "bot:2", "canaryShare": 0.5, "bakeMs": 0, "tolerance": 0.4}
            assert (await user.post(ROLLOUTS, json=request)).status_code == 201
        server.kill()
        for wave in range(3):
            server = await installed.serve()
            async with installed.client(server) as user:
                await until(user, ROLLOUTS, lambda body: body["rollouts"][0]["state"] != "pulling")
                await meet(user, 20)
                if wave < 2:
                    server.kill()
                    continue
                ended = await until(
                    user, ROLLOUTS, lambda body: body["rollouts"][0]["endedAt"] is not None
                )
                pool = (await user.get("/v1/pools/google-meet")).json()["pool"]
        assert ended["rollouts"][0]["state"] == "promoted", ended
        assert pool["image"] == "bot:2"
        runs = installed.rows("SELECT is_new, count(*) FROM rollout_runs GROUP BY is_new")
        assert dict(runs)[True] - 1 <= 30, "the pull, and at most half of the assignments"
    postgres.drop_database(url)
