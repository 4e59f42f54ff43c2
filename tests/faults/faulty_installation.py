"""Real replicas on one PostgreSQL, each behind a TCP proxy that a fault schedule can disturb.

Agents and clients call one public address, a load balancer that checks `/readyz`. The bots record
their starts and joins in a file, independently of the replicas. The times of recovery are short, so
that a fault of some seconds lasts longer than a bot may be silent.
"""

import asyncio
import json
import random
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
from psycopg.conninfo import conninfo_to_dict

from botpool.store.migrator import migrate
from tests.chaos import recording_bot
from tests.chaos.client_load import (
    LoadClient,
    assert_none_joined_twice,
    slots_not_idle,
    wait_for_joined,
)
from tests.faults.load_balancer import LoadBalancer
from tests.faults.network_namespace import NetworkNamespace
from tests.support.invariants import assert_settled
from tests.support.postgres import TestPostgres
from tests.support.server import COMMAND, FINAL, Installation, Server, none_left
from tests.support.tcp_proxy import TcpProxy

FRESHNESS_S = 12.0
"""How long a bot may be silent; the default is five minutes."""
STATEMENT_TIMEOUT_S = 2.0
"""The longest statement; the default is half a minute."""
WAIT_S = 180.0
"""A generous limit for slow machines; only a broken test waits this long."""
FAST_SETTINGS: Mapping[str, str] = {
    "agent.heartbeat_interval_ms": "500",
    "recovery.heartbeat_freshness_s": f"{FRESHNESS_S:g}",
    "recovery.interval_s": "1",
    "deploy.poll_interval_s": "1",
    "database.statement_timeout_s": f"{STATEMENT_TIMEOUT_S:g}",
}


@dataclass(slots=True, kw_only=True)
class FaultyReplica:
    """One replica and the proxy on its way to the database."""

    server: Server
    database: TcpProxy

    async def readiness(self) -> httpx.Response:
        async with httpx.AsyncClient(trust_env=False, timeout=WAIT_S) as user:
            return await user.get(f"{self.server.url}/readyz")

    async def wait_until_not_ready(self, *, naming: str = "") -> str:
        """Wait until `/readyz` answers 503 with this text, and return the problem that it names.

        Another problem may come first: sessions that end before the server refuses writes.
        """
        problem = ""

        async def ready() -> list[str]:
            nonlocal problem
            response = await self.readiness()
            problem = response.json()["problem"] or ""
            is_named = response.status_code == 503 and naming in problem
            return [] if is_named else [response.text]

        await none_left("replicas that should not be ready", ready, within_s=WAIT_S)
        return problem


@dataclass(slots=True, kw_only=True)
class FaultyInstallation(Installation):
    """An installation whose database connections a test can disturb."""

    postgres: TestPostgres
    rng: random.Random
    stack: AsyncExitStack
    replicas: list[FaultyReplica] = field(default_factory=list)
    balancer: LoadBalancer | None = None
    load: LoadClient | None = None

    async def add_replica(self, namespace: NetworkNamespace | None = None) -> FaultyReplica:
        """Start a replica whose database connections pass through a proxy of its own."""
        assert self.balancer is not None
        host = namespace.outside if namespace else "127.0.0.1"
        proxy = await self.stack.enter_async_context(
            TcpProxy.running(lambda: ("127.0.0.1", self.postgres.port), host=host)
        )
        settings = {
            "database.url": f"postgresql://botpool@{host}:{proxy.port}/{self.database_name}",
            "server.public_url": self.balancer.url,
        }
        if namespace is None:
            server = await self.serve(settings=settings)
        else:
            settings["server.host"] = namespace.inside
            server = self.launch(settings=settings, prefix=namespace.command, host=namespace.inside)
            await server.wait_until_ready()
        replica = FaultyReplica(server=server, database=proxy)
        self.replicas.append(replica)
        return replica

    @property
    def clients(self) -> LoadClient:
        assert self.load is not None
        return self.load

    async def send(self, count: int) -> None:
        """Send bots, each until it is accepted, and wait until all of them are in their calls."""
        before = len(self.clients.accepted)
        keys = [f"bot-{before + number}" for number in range(count)]
        await asyncio.gather(*(self.clients.post(key) for key in keys))
        try:
            await wait_for_joined(self, before + count)
        except AssertionError:
            self.assert_none_ended()
            raise

    @property
    def database_name(self) -> str:
        return str(conninfo_to_dict(self.database_url)["dbname"])

    def end_sessions(self, server: psycopg.Connection, *, share: float = 1.0) -> None:
        """Terminate that share of the database's sessions, chosen at random by this seed."""
        found = server.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = %s ORDER BY pid", [self.database_name]
        ).fetchall()
        for (pid,) in self.rng.sample(found, round(share * len(found))):
            server.execute("SELECT pg_terminate_backend(%s)", [pid])

    def statuses(self) -> Counter[str]:
        """Return how many bots have each status, from the database itself."""
        return Counter(status for (status,) in self.rows("SELECT status FROM bots"))

    def endings(self) -> list[tuple[Any, ...]]:
        """Return the bots that have ended."""
        return self.rows(
            "SELECT id, status, failure_code, failure_reason FROM bots WHERE ended_at IS NOT NULL"
        )

    def assert_none_ended(self) -> None:
        """Check that every bot is alive; an ended one is shown with its history."""
        ended = self.endings()
        history = self.rows(
            "SELECT bot_id, at, kind, slot_name, from_state, to_state, reason FROM history"
            " WHERE bot_id = ANY(%s) ORDER BY id",
            [bot_id for bot_id, *_ in ended],
        )
        lines = "\n".join(" ".join(map(str, each)) for each in [*ended, *history])
        assert ended == [], f"the fault ended healthy bots:\n{lines}"

    async def finish(self) -> None:
        """End the meetings, wait for every bot and check that no bot was failed or lost."""
        for replica in self.replicas:
            replica.database.resume()
        running = [each for each in self.replicas if each.server.process.poll() is None]
        await asyncio.gather(*(each.server.wait_until_ready() for each in running))
        self.assert_none_ended()
        (self.data_dir / recording_bot.MEETING_OVER).touch()
        await self.wait_until_all_done()

    async def wait_until_all_done(self) -> None:
        """Wait for the end of every bot and check that each joined once and is DONE."""

        async def unfinished() -> dict[str, int]:
            return {each: n for each, n in self.statuses().items() if each not in FINAL}

        await none_left("bots that have not ended", unfinished, within_s=WAIT_S)
        await none_left("slots that are not idle", lambda: slots_not_idle(self), within_s=WAIT_S)
        await none_left("processes left over", self.left_over, within_s=WAIT_S)
        bots = {bot_id: status for bot_id, status, _, _ in self.endings()}
        assert sorted(self.clients.accepted.values()) == sorted(bots), "a bot is lost or duplicated"
        assert set(bots.values()) == {"DONE"}, self.endings()
        assert_none_joined_twice(self, set(bots))
        assert_settled(self.database_url)
        assert_no_internal_error(self.clients.error_responses)
        await self.check_with_doctor()

    async def check_with_doctor(self) -> None:
        """Run `botpool doctor`; a check with the result "wrong" fails the test."""
        ran = await asyncio.to_thread(
            subprocess.run,
            [COMMAND, "doctor", "--json"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=self._environment(),
            cwd=self.data_dir,
        )
        findings = json.loads(ran.stdout)["findings"]
        assert ran.returncode == 0, [each for each in findings if each["result"] == "wrong"]


def assert_no_internal_error(responses: list[httpx.Response]) -> None:
    """Check that each error was a problem that tells the client when to come back."""
    for response in responses:
        assert response.status_code == 503, response.text
        assert response.headers["content-type"] == "application/problem+json", response.text
        assert int(response.headers["retry-after"]) > 0


@asynccontextmanager
async def faulty_installation(
    postgres: TestPostgres,
    data_dir: Path,
    *,
    seed: int,
    replicas: int = 2,
    pool_size: int = 6,
    settings: Mapping[str, str] | None = None,
    database_url: str | None = None,
    host: str = "127.0.0.1",
) -> AsyncIterator[FaultyInstallation]:
    """Run replicas on a new database, or a given one, and stop everything at the end."""
    url = database_url or postgres.create_database()
    migrate(url)
    bot = [sys.executable, str(Path(recording_bot.__file__)), str(data_dir)]
    async with AsyncExitStack() as stack:
        installed = FaultyInstallation(
            database_url=url,
            data_dir=data_dir,
            settings={
                "pools.google-meet.max_size": str(pool_size),
                "backends.process.command": shlex.join(bot),
                **FAST_SETTINGS,
                **(settings or {}),
            },
            postgres=postgres,
            rng=random.Random(seed),
            stack=stack,
        )
        installed.insert_api_key()
        stack.push_async_callback(installed.clear)
        installed.balancer = await stack.enter_async_context(
            LoadBalancer.running(installed.servers, host=host)
        )
        user = httpx.AsyncClient(
            base_url=installed.balancer.url,
            headers={"Authorization": f"Bearer {installed.key}", "Connection": "close"},
            trust_env=False,
            timeout=WAIT_S,
        )
        installed.load = LoadClient([await stack.enter_async_context(user)])
        for _ in range(replicas):
            await installed.add_replica()
        try:
            yield installed
        except BaseException as error:
            error.add_note(f"Replay this schedule with --fault-seed={seed}.")
            raise
