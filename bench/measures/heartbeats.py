"""Heartbeats of 1,000 agents, compared with an endpoint that does nothing.

Each heartbeat is written before its response.
"""

import asyncio
import time

import psycopg
import uvloop

from bench import wrk
from bench.cycles import BOT_REQUEST, Cycles
from bench.figures import Figure
from bench.http_client import Client
from bench.http_server import AGENT_KEY, Server, serving
from bench.measures.admit_http import BODY
from bench.postgres import Bench, execute, fill_pool
from botpool.domain.tokens import agent_token

_AGENTS = 1_000
_BUSY = (
    "UPDATE bot_pool_slots SET status = 'busy', phase = NULL, version = version + 1 "
    "WHERE status = 'deploying'"
)


def measure(bench: Bench) -> list[Figure]:
    url = bench.database("heartbeats")
    fill_pool(url, slots=_AGENTS)
    uvloop.run(_admit_all(url))
    execute(url, _BUSY, "VACUUM ANALYZE")
    agents = _agents(url)
    with serving(url) as server:
        figures = [_against_noop(bench, server, agents)] if wrk.is_installed() else []
        figures.append(_server_share(bench, server, agents))
    figures.append(_in_place(url))
    return figures


async def _admit_all(url: str) -> None:
    async with Cycles.on(url) as cycles:
        admit = cycles.replica.admission.admit
        await asyncio.gather(*(admit(BOT_REQUEST) for _ in range(_AGENTS)))


def _agents(url: str) -> list[tuple[str, str]]:
    """Return the path and the token of each agent."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT assigned_bot_id, assignment_id FROM bot_pool_slots WHERE status = 'busy'"
        ).fetchall()
    return [
        (f"/v1/agent/bots/{bot_id}/heartbeat", agent_token(assignment_id, AGENT_KEY))
        for bot_id, assignment_id in rows
    ]


def _against_noop(bench: Bench, server: Server, agents: list[tuple[str, str]]) -> Figure:
    paths, tokens = [path for path, _ in agents], [token for _, token in agents]
    ratios, rates = [], []
    for _ in range(bench.rounds):
        noop = wrk.posts_per_second(
            server.address, ["/noop"], [server.key], body=BODY, seconds=bench.seconds
        )
        rates.append(
            wrk.posts_per_second(server.address, paths, tokens, body=None, seconds=bench.seconds)
        )
        ratios.append(rates[-1] / noop)
    detail = {"heartbeats_per_s": round(sorted(rates)[len(rates) // 2])}
    return Figure(name="heartbeats_vs_noop", rounds=ratios, goal=0.6, detail=detail)


def _server_share(bench: Bench, server: Server, agents: list[tuple[str, str]]) -> Figure:
    """Measure the share of a processor that PostgreSQL needs for 1,000 heartbeats a second."""
    shares, rates = [], []
    for _ in range(1 if bench.small else 3):
        before, began = bench.server_cpu_s(), time.monotonic()
        beats = uvloop.run(_beat(server, agents, seconds=1.0 if bench.small else 5.0))
        took_s = time.monotonic() - began
        rates.append(beats / took_s)
        # A busy machine sends fewer heartbeats, so the share is scaled to 1,000.
        shares.append((bench.server_cpu_s() - before) / beats * 1_000)
    detail = {"sent_per_s": round(sorted(rates)[len(rates) // 2])}
    return Figure(
        name="heartbeats_postgres_share", rounds=shares, goal=0.2, at_most=True, detail=detail
    )


async def _beat(server: Server, agents: list[tuple[str, str]], *, seconds: float) -> int:
    """Send the heartbeats of all agents, spread over each second; return their number."""
    async with Client.connected(server.address, server.key, 64) as client:
        began = time.perf_counter()
        rounds = int(seconds)

        async def agent(number: int, path: str, token: str) -> int:
            for n in range(rounds):
                moment = began + n + number / len(agents)
                await asyncio.sleep(moment - time.perf_counter())
                assert (await client.post(path, token=token)).status == 200
            return rounds

        return sum(
            await asyncio.gather(*(agent(number, *called) for number, called in enumerate(agents)))
        )


def _in_place(url: str) -> Figure:
    """Measure the share of updates that needed no new index entry."""
    with psycopg.connect(url) as connection:
        connection.execute("SELECT pg_stat_force_next_flush()")
        row = connection.execute(
            "SELECT n_tup_hot_upd::float8 / greatest(n_tup_upd, 1), n_tup_upd "
            "FROM pg_stat_user_tables WHERE relname = 'bot_heartbeats'"
        ).fetchone()
    assert row is not None
    return Figure(name="heartbeats_in_place", rounds=[row[0]], goal=0.9, detail={"beats": row[1]})
