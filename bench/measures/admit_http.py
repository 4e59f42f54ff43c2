"""`POST /v1/bots`, compared with an endpoint of the same server that only validates the body."""

import asyncio
import json
import random
import statistics
import time
from collections import Counter

import uvloop

from bench import wrk
from bench.figures import Figure
from bench.http_client import Answer, Client
from bench.http_server import Server, serving
from bench.postgres import Bench, execute, fill_pool

_TOLERANCE = 0.15
"""A third of the goal: one short round on a busy machine varies by a factor of two."""
BODY = {"meetingUrl": "https://meet.google.com/abc-defg-hij", "botData": {"language": "en"}}
_UNLOADED = 50
"""Requests, one after the other, whose median is the latency of an unloaded server."""
_SLOTS_PER_S = 8_000
"""More than one server can admit in a second."""
_TOO_FEW = "SELECT 1 / (count(*) - 1) FROM bot_pool_queue HAVING count(*) > 0"


def measure(bench: Bench) -> list[Figure]:
    url = bench.database("admit_http")
    with serving(url) as server:
        figures = [_against_noop(bench, server, url)] if wrk.is_installed() else []
        if bench.small:
            # Short bursts and the slowest hundredth of one second mostly show other work.
            return figures
        return [*figures, _open_loop(server, url), _burst(server, url)]


def _against_noop(bench: Bench, server: Server, url: str) -> Figure:
    ratios, rates, limits = [], [], []
    for _ in range(bench.rounds):
        noop = _posts(server, "/noop", bench.seconds)
        fill_pool(url, slots=_SLOTS_PER_S * bench.seconds)
        rates.append(_posts(server, "/v1/bots", bench.seconds))
        ratios.append(rates[-1] / noop)
        execute(url, _TOO_FEW)
        if not bench.small:
            fill_pool(url, slots=_SLOTS_PER_S * bench.seconds)
            limits.append(_posts(server, "/least", bench.seconds) / noop)
    detail: dict[str, float] = {"posts_per_s": round(statistics.median(rates))}
    if limits:
        detail["limit"] = round(statistics.median(limits), 3)
    return Figure(
        name="admit_http_vs_noop", rounds=ratios, goal=0.45, tolerance=_TOLERANCE, detail=detail
    )


def _posts(server: Server, path: str, seconds: int) -> float:
    return wrk.posts_per_second(server.address, [path], [server.key], body=BODY, seconds=seconds)


def _open_loop(server: Server, url: str) -> Figure:
    """Measure requests at random moments, of which a fifth find an idle slot."""
    posts, seconds = 5_000, 10.0
    ratios, details = [], []
    for _ in range(5):
        # Fill the pool once for both: emptying it would discard the plans of the statements.
        fill_pool(url, slots=_UNLOADED + posts // 5)
        unloaded = uvloop.run(_unloaded(server))
        answers = uvloop.run(_at_random(server, posts, seconds))
        times = sorted(answer.seconds for answer in answers)
        p50, p99 = times[posts // 2], times[posts * 99 // 100]
        ratios.append(p99 / unloaded)
        shown = {"p50_ms": round(p50 * 1000, 1), "p99_ms": round(p99 * 1000, 1)}
        details.append({**shown, **_count_failures(answers, posts)})
    middle = sorted(details, key=lambda detail: detail["p99_ms"])[len(details) // 2]
    return Figure(name="admit_http_open_loop", rounds=ratios, goal=10, at_most=True, detail=middle)


def _steady(server: Server, url: str) -> float:
    """Return the requests per second for idle slots, sent by the client of the burst."""
    posts = 3_000
    fill_pool(url, slots=posts)
    return uvloop.run(_all_at_once(server, posts, connections=256))[0]


def _burst(server: Server, url: str) -> Figure:
    posts = 5_000
    ratios, detail = [], {}
    for _ in range(3):
        steady = _steady(server, url)
        fill_pool(url, slots=posts // 5)
        rate, answers = uvloop.run(_all_at_once(server, posts, connections=256))
        ratios.append(rate / steady)
        detail = {"posts_per_s": round(rate), **_count_failures(answers, posts)}
    return Figure(name="admit_http_burst", rounds=ratios, goal=0.8, detail=detail)


async def _unloaded(server: Server) -> float:
    async with Client.connected(server.address, server.key, 1) as client:
        posts = [await client.post("/v1/bots", BODY) for _ in range(_UNLOADED)]
        return statistics.median(post.seconds for post in posts)


async def _at_random(server: Server, posts: int, seconds: float) -> list[Answer]:
    chance = random.Random(1)
    moments = [chance.uniform(0, seconds) for _ in range(posts)]
    async with Client.connected(server.address, server.key, 256) as client:
        # Start when all tasks wait: creating them is not the server's time.
        began = time.perf_counter() + 1

        async def post(moment: float) -> Answer:
            await asyncio.sleep(began + moment - time.perf_counter())
            return await client.post("/v1/bots", BODY)

        return await asyncio.gather(*(post(moment) for moment in moments))


async def _all_at_once(
    server: Server, posts: int, *, connections: int
) -> tuple[float, list[Answer]]:
    async with Client.connected(server.address, server.key, connections) as client:
        began = time.perf_counter()
        answers = await asyncio.gather(*(client.post("/v1/bots", BODY) for _ in range(posts)))
        return posts / (time.perf_counter() - began), answers


def _count_failures(answers: list[Answer], posts: int) -> dict[str, int]:
    """Count the refused requests and the responses that contradict each other."""
    refused = sum(answer.status == 503 for answer in answers)
    shown = [json.loads(answer.body) for answer in answers if answer.status == 201]
    statuses = Counter(body["bot"]["status"] for body in shown)
    slots = [body["bot"]["slotName"] for body in shown if body["bot"]["status"] == "DEPLOYING"]
    wrong = len(answers) - refused - len(shown)
    wrong += len(slots) - len(set(slots)) + abs(statuses["DEPLOYING"] - posts // 5)
    wrong += len(shown) - len({body["bot"]["id"] for body in shown})
    return {"refused": refused, "wrong": wrong}
