"""Bots for hot slots: from `POST /v1/bots` to the agent's first call, and the cost of waiting.

The agents are virtual: they hold their polls like agents in containers, so that the figures show
Botpool's own share. A lone bot is compared with a bare round trip (`/noop`), a burst with as many
requests for warm slots of the same server. The limit for a lone bot is a round trip that commits
one small row (`/durable`): a bot is on the disk before its agent learns of it.
"""

import asyncio
import statistics
import time
from collections.abc import Sequence
from typing import Any

import psutil
import uvloop

from bench.figures import Figure, percentile
from bench.http_client import Client
from bench.http_server import HOT_POOL, PLAIN_POOL, Server, serving
from bench.postgres import Bench
from bench.virtual_agents import FirstCall, VirtualAgents

_BURST = 300
_WAITING = 1_000
_SETTLE_S = 3.0


def measure(bench: Bench) -> list[Figure]:
    if bench.small:
        return []  # Single requests of a short run mostly show other work on the machine.
    url = bench.database("hot_slots")
    with serving(url, hot=_BURST) as server:
        figures = uvloop.run(_hand_overs(bench, server, url, _BURST))
    return [*figures, *_waiting(bench)]


def _body(pool_name: str) -> dict[str, Any]:
    return {"meetingUrl": "https://meet.google.com/abc-defg-hij", "platform": pool_name}


async def _hand_overs(bench: Bench, server: Server, url: str, burst: int) -> list[Figure]:
    alone, ratios, limits, posts, alone_times = min(burst - 5, 100), [], [], [], []
    burst_ratios, burst_times = [], []
    async with VirtualAgents.on(server, url) as agents:
        for number in range(1 + bench.rounds):
            await agents.hold_polls(burst)
            async with Client.connected(server.address, server.key, 1) as client:
                times = await _alone(agents, client, alone)
            await agents.hold_polls(burst)
            # The server closes connections that wait for their first request too long.
            async with Client.connected(server.address, server.key, burst) as client:
                plain = await _plain_burst(agents, client, burst)
            async with Client.connected(server.address, server.key, burst) as client:
                together = await _burst(agents, client, burst)
            if number == 0:
                continue  # The first round creates slots, and prepares statements.
            bare, durable, post, hot = (statistics.median(each) for each in times)
            ratios.append(hot / bare)
            limits.append(durable / bare)
            posts.append(post)
            alone_times += times[-1]
            burst_ratios.append(max(together) / plain)
            burst_times.append(together)
    return [
        Figure(
            name="hot_vs_round_trip",
            rounds=ratios,
            goal=3,
            at_most=True,
            detail={
                **_milliseconds(alone_times),
                "post_ms": round(statistics.median(posts) * 1000, 1),
                "limit": round(statistics.median(limits), 2),
            },
        ),
        Figure(
            name="hot_burst_vs_posts",
            rounds=burst_ratios,
            goal=2,
            at_most=True,
            detail={
                "at_once": burst,
                **_milliseconds([each for times in burst_times for each in times]),
                "last_ms": round(statistics.median(map(max, burst_times)) * 1000),
            },
        ),
    ]


def _milliseconds(times: Sequence[float]) -> dict[str, float]:
    return {f"p{share}_ms": round(percentile(times, share) * 1000, 1) for share in (50, 90, 99)}


async def _alone(
    agents: VirtualAgents, client: Client, count: int
) -> tuple[list[float], list[float], list[float], list[float]]:
    """Return the times of bare and durable round trips, of answers and of bots, in turns."""
    bare, durable, posts, hot, calls = [], [], [], [], []
    for _ in range(count):
        bare.append((await client.post("/noop", _body(HOT_POOL))).seconds)
        durable.append((await client.post("/durable", _body(HOT_POOL))).seconds)
        sent_at = time.perf_counter()
        answer = await client.post("/v1/bots", _body(HOT_POOL))
        assert answer.status == 201, answer.body
        posts.append(answer.seconds)
        calls += await agents.first_calls(1)
        hot.append(calls[-1].sent_at - sent_at)
    await agents.end_bots(HOT_POOL)
    return bare, durable, posts, hot


async def _burst(agents: VirtualAgents, client: Client, count: int) -> list[float]:
    """Return the time of each bot of a burst, from the burst's start to the agent's first call."""
    began = time.perf_counter()
    answers = await asyncio.gather(
        *(client.post("/v1/bots", _body(HOT_POOL)) for _ in range(count))
    )
    calls: list[FirstCall] = await agents.first_calls(count)
    assert all(answer.status == 201 for answer in answers)
    await agents.end_bots(HOT_POOL)
    return [call.sent_at - began for call in calls]


async def _plain_burst(agents: VirtualAgents, client: Client, count: int) -> float:
    """Return how long the same server takes to answer as many requests for warm slots."""
    began = time.perf_counter()
    answers = await asyncio.gather(
        *(client.post("/v1/bots", _body(PLAIN_POOL)) for _ in range(count))
    )
    took_s = time.perf_counter() - began
    assert all(answer.status == 201 for answer in answers)
    await agents.end_bots(PLAIN_POOL)
    return took_s


def _waiting(bench: Bench) -> list[Figure]:
    """Measure what a thousand waiting agents cost the server, against the same server without."""
    url = bench.database("hot_waiting")
    with serving(url, hot=_WAITING) as server:
        return uvloop.run(_cost(server, url))


async def _cost(server: Server, url: str) -> list[Figure]:
    async with VirtualAgents.on(server, url) as agents:
        without = server.process.memory_info().rss
        await agents.hold_polls(_WAITING)
        await asyncio.sleep(_SETTLE_S)
        shares = [await _processor_share(server.process, 15.0) for _ in range(3)]
        memory_mb = (server.process.memory_info().rss - without) / 1024**2
    return [
        Figure(name="hot_waiting_processor", rounds=shares, goal=0.03, at_most=True,
               detail={"standbys": _WAITING}),
        Figure(name="hot_waiting_memory_mb", rounds=[memory_mb], goal=100, at_most=True,
               detail={"standbys": _WAITING}),
    ]  # fmt: skip


async def _processor_share(process: psutil.Process, seconds: float) -> float:
    """Return the share of a processor that the process uses."""
    before, began = process.cpu_times(), time.monotonic()
    await asyncio.sleep(seconds)
    after, passed = process.cpu_times(), time.monotonic() - began
    used: float = after.user + after.system - before.user - before.system
    return used / passed
