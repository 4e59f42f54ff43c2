"""One server with a hot pool and a pool without standbys, whose bots report their first call."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx
import psycopg

from bench.first_calls import FirstCalls
from tests.support.server import Installation

_HOT_POOL, _WARM_POOL = "google-meet", "teams"
_WITHIN_S = 300.0
_HOT = "SELECT count(*) FROM bot_pool_slots WHERE pool_name = %s AND claim_rank = 0"
_NOT_IDLE = "SELECT count(*) FROM bot_pool_slots WHERE pool_name = %s AND status <> 'idle'"
_ALL = "SELECT count(*) FROM bot_pool_slots WHERE pool_name = %s"
_IDS = "SELECT id FROM bot_pool_slots WHERE pool_name = %s ORDER BY id"


@dataclass(slots=True, kw_only=True)
class Pools:
    """Starts bots and returns the time of each, from the request to the first call."""

    installed: Installation
    client: httpx.AsyncClient
    calls: FirstCalls
    size: int

    async def hot(self, count: int) -> list[float]:
        await self._until(_HOT, _HOT_POOL, self.size)
        return await self._start(_HOT_POOL, count)

    async def warm(self, count: int) -> list[float]:
        return await self._start(_WARM_POOL, count)

    async def cold(self, count: int) -> list[float]:
        """Start bots in slots that do not exist yet."""
        for (slot_id,) in self.installed.rows(_IDS, _WARM_POOL):
            (await self.client.delete(f"/v1/slots/{slot_id}")).raise_for_status()
        await self._until(_ALL, _WARM_POOL, 0)
        return await self._start(_WARM_POOL, count)

    async def _start(self, pool_name: str, count: int) -> list[float]:
        body = {"meetingUrl": "https://meet.google.com/abc-defg-hij", "platform": pool_name}
        began = time.monotonic()
        answers = await asyncio.gather(
            *(self.client.post("/v1/bots", json=body) for _ in range(count))
        )
        bots = [answer.json()["bot"]["id"] for answer in answers]
        times = [called_at - began for called_at in await self.calls.of(bots)]
        self.calls.let_bots_end()
        await self._until(_NOT_IDLE, pool_name, 0)
        return times

    async def _until(self, query: str, pool_name: str, value: int) -> None:
        deadline = time.monotonic() + _WITHIN_S
        async with await psycopg.AsyncConnection.connect(
            self.installed.database_url, autocommit=True
        ) as connection:
            while await (await connection.execute(query, [pool_name])).fetchone() != (value,):
                assert time.monotonic() < deadline, f"{query} is not {value}"
                await asyncio.sleep(0.1)


def pool_settings(
    backend: str, image: str, calls: FirstCalls, *, size: int, hot: int, **more: float
) -> dict[str, str]:
    """Return the settings of both pools."""
    pool = {
        "backend": backend,
        "image": image,
        "max_size": str(size),
        "heartbeats": "none",
        "env": f'{{"BENCH_PORT": "{calls.port}"}}',
        **{name: str(value) for name, value in more.items()},
    }
    pools = {
        f"pools.{name}.{field}": value
        for name in (_HOT_POOL, _WARM_POOL)
        for field, value in pool.items()
    }
    return {
        **pools,
        f"pools.{_HOT_POOL}.warm.hot": str(hot),
        f"pools.{_HOT_POOL}.warm.handover_timeout_s": "60",
        f"pools.{_HOT_POOL}.warm.refill_per_minute": "60000",
        "limits.posts_per_minute": "1000000",
        "limits.requests_per_minute": "1000000",
    }


@asynccontextmanager
async def served_pools(
    installed: Installation, calls: FirstCalls, *, size: int
) -> AsyncIterator[Pools]:
    """Run a server of the installation for the duration of the block."""
    server = await installed.serve()
    limits = httpx.Limits(max_connections=size, max_keepalive_connections=size)
    async with installed.client(server, limits=limits, timeout=_WITHIN_S) as client:
        yield Pools(installed=installed, client=client, calls=calls, size=size)
