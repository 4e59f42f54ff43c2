"""Agents of hot slots without containers: each holds its poll, accepts its bot and ends it."""

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import psycopg

from bench.http_client import Client, Connection
from bench.http_server import AGENT_KEY, HOT_POOL, Server
from botpool.domain.tokens import agent_token, standby_token

_STANDBYS = (
    "SELECT id, run_id, container_id FROM bot_pool_slots "
    "WHERE pool_name = %s AND standby IN ('starting', 'ready') AND start_issued_at IS NOT NULL"
)
_ASSIGNED = (
    "SELECT assigned_bot_id, assignment_id, nullif(run_id, assignment_id) FROM bot_pool_slots "
    "WHERE pool_name = %s AND assigned_bot_id IS NOT NULL"
)
_NOT_IDLE = "SELECT 1 FROM bot_pool_slots WHERE pool_name = %s AND status <> 'idle' LIMIT 1"
_READY = "SELECT count(*) FROM bot_pool_slots WHERE pool_name = %s AND claim_rank = 0"
_WITHIN_S = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstCall:
    """The first call of an agent for its bot, by the clock of this process."""

    bot_id: int
    sent_at: float
    answered_at: float


class VirtualAgents:
    def __init__(self, server: Server, url: str) -> None:
        self._server, self._url = server, url
        self._agents: dict[int, asyncio.Task[None]] = {}
        self._calls: asyncio.Queue[FirstCall] = asyncio.Queue()

    @classmethod
    @asynccontextmanager
    async def on(cls, server: Server, url: str) -> AsyncIterator["VirtualAgents"]:
        agents = cls(server, url)
        try:
            yield agents
        finally:
            for task in agents._agents.values():
                task.cancel()

    async def hold_polls(self, count: int) -> None:
        """Open the polls of all standbys, and wait until that many are ready for a bot."""
        deadline = time.monotonic() + _WITHIN_S
        async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as connection:
            while True:
                standbys = await (await connection.execute(_STANDBYS, [HOT_POOL])).fetchall()
                for slot_id, run_id, container_id in standbys:
                    if run_id not in self._agents:
                        self._agents[run_id] = asyncio.create_task(
                            self._run(slot_id, run_id, container_id)
                        )
                for agent in self._agents.values():
                    if agent.done():
                        agent.result()
                ((ready,),) = await (await connection.execute(_READY, [HOT_POOL])).fetchall()
                if ready >= count:
                    return
                assert time.monotonic() < deadline, f"{ready} of {count} standbys are ready"
                await asyncio.sleep(0.1)

    async def first_calls(self, count: int) -> list[FirstCall]:
        return [await self._calls.get() for _ in range(count)]

    async def end_bots(self, pool_name: str) -> None:
        """Report the end of all bots of a pool, and wait until its slots are idle."""
        deadline = time.monotonic() + _WITHIN_S
        async with (
            await psycopg.AsyncConnection.connect(self._url, autocommit=True) as database,
            Client.connected(self._server.address, "", 16) as client,
        ):
            bots = await (await database.execute(_ASSIGNED, [pool_name])).fetchall()
            answers = await asyncio.gather(
                *(
                    client.post(
                        f"/v1/agent/bots/{bot_id}/status",
                        {"status": "DONE"},
                        token=agent_token(assignment_id, AGENT_KEY, run_id=run_id),
                    )
                    for bot_id, assignment_id, run_id in bots
                )
            )
            assert all(answer.status == 200 for answer in answers), answers
            while await (await database.execute(_NOT_IDLE, [pool_name])).fetchall():
                assert time.monotonic() < deadline, "slots are not idle"
                await asyncio.sleep(0.1)

    async def _run(self, slot_id: int, run_id: int, container_id: str) -> None:
        """Do what an agent does, from its first poll to the answer of its first call."""
        connection = await Connection.to(self._server.address)
        boot = secrets.token_hex(8)
        standby = standby_token(slot_id, run_id, AGENT_KEY)  # type: ignore[arg-type]
        assignment = None
        while assignment is None:
            path = f"/v1/agent/assignment?wait=30&bootId={boot}"
            status, body = await connection.request("GET", path, standby)
            assert status == 200, body
            answer = json.loads(body)
            if answer["shouldExit"]:
                return
            assignment = answer["assignment"]
        path = f"/v1/agent/slot?containerId={container_id}&bootId={boot}"
        sent_at = time.perf_counter()
        status, body = await connection.request("GET", path, assignment["token"])
        answered_at = time.perf_counter()
        assert status == 200, body
        connection.close()
        self._calls.put_nowait(
            FirstCall(
                bot_id=json.loads(body)["bot"]["id"],
                sent_at=sent_at,
                answered_at=answered_at,
            )
        )
