"""Heartbeats of 1,000 agents, each written before it is answered, against the noop endpoint."""

import asyncio
import time

import psycopg
import uvloop

from bench import wrk
from bench.cycles import WISH, Cycles
from bench.figures import Figure
from bench.ground import Ground, execute, fill_pool
from bench.http_client import Client
from bench.measures.admit_http import BODY
from bench.served import SECRET, Server, serving
from botpool.domain.tokens import agent_token

_AGENTS = 1_000
_BUSY = (
    "UPDATE bot_pool_slots SET status = 'busy', phase = NULL, version = version + 1 "
    "WHERE status = 'deploying'"
)


def measure(ground: Ground) -> list[Figure]:
    url = ground.database("heartbeats")
    fill_pool(url, slots=_AGENTS)
    uvloop.run(_admit_all(url))
    execute(url, _BUSY, "VACUUM ANALYZE")
    agents = _agents(url)
    with serving(url) as server:
        figures = [_against_noop(ground, server, agents)] if wrk.is_there() else []
        figures.append(_server_share(ground, server, agents))
    figures.append(_in_place(url))
    return figures


async def _admit_all(url: str) -> None:
    async with Cycles.on(url) as cycles:
        admit = cycles.replica.admission.admit
        await asyncio.gather(*(admit(WISH) for _ in range(_AGENTS)))


def _agents(url: str) -> list[tuple[str, str]]:
    """Where each agent calls, and with which token."""
    with psycopg.connect(url) as connection:
        rows = connection.execute(
            "SELECT assigned_bot_id, assignment_id FROM bot_pool_slots WHERE status = 'busy'"
        ).fetchall()
    return [
        (f"/v1/agent/bots/{bot_id}/heartbeat", agent_token(assignment_id, SECRET))
        for bot_id, assignment_id in rows
    ]


def _against_noop(ground: Ground, server: Server, agents: list[tuple[str, str]]) -> Figure:
    paths, tokens = [path for path, _ in agents], [token for _, token in agents]
    ratios, rates = [], []
    for _ in range(ground.rounds):
        noop = wrk.posts_per_second(
            server.address, ["/noop"], [server.key], body=BODY, seconds=ground.seconds
        )
        rates.append(
            wrk.posts_per_second(server.address, paths, tokens, body=None, seconds=ground.seconds)
        )
        ratios.append(rates[-1] / noop)
    detail = {"heartbeats_per_s": round(sorted(rates)[len(rates) // 2])}
    return Figure(name="heartbeats_vs_noop", rounds=ratios, goal=0.6, detail=detail)


def _server_share(ground: Ground, server: Server, agents: list[tuple[str, str]]) -> Figure:
    """Of one processor, what PostgreSQL takes for a thousand heartbeats a second."""
    shares, rates = [], []
    for _ in range(1 if ground.small else 3):
        before, began = ground.server_cpu_s(), time.monotonic()
        beats = uvloop.run(_beat(server, agents, seconds=1.0 if ground.small else 5.0))
        took_s = time.monotonic() - began
        rates.append(beats / took_s)
        # What was sent may be fewer on a busy machine: told for the thousand.
        shares.append((ground.server_cpu_s() - before) / beats * 1_000)
    detail = {"sent_per_s": round(sorted(rates)[len(rates) // 2])}
    return Figure(
        name="heartbeats_postgres_share", rounds=shares, goal=0.2, at_most=True, detail=detail
    )


async def _beat(server: Server, agents: list[tuple[str, str]], *, seconds: float) -> int:
    """A thousand agents, each once a second at a moment of its own."""
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
    """How many of the updates needed no new entry in an index."""
    with psycopg.connect(url) as connection:
        connection.execute("SELECT pg_stat_force_next_flush()")
        row = connection.execute(
            "SELECT n_tup_hot_upd::float8 / greatest(n_tup_upd, 1), n_tup_upd "
            "FROM pg_stat_user_tables WHERE relname = 'bot_heartbeats'"
        ).fetchone()
    assert row is not None
    return Figure(name="heartbeats_in_place", rounds=[row[0]], goal=0.9, detail={"beats": row[1]})
