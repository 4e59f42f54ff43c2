"""The HTTP API for tests: `api_over` in the test's process, or `served` as `botpool serve`.

In the test's process, only the backend is scripted, and no loops run: a test sees exactly what its
request changed. Tests of connections and HTTP framing need `botpool serve`.
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg
from fastapi import FastAPI

from botpool.api.app import create_app
from botpool.backends.process import ProcessBackend
from botpool.domain.ids import AssignmentId
from botpool.domain.installation_secret import Purpose, derive_key
from botpool.domain.policy import Policy
from botpool.domain.pools import PoolSpec
from botpool.domain.tokens import agent_token
from botpool.engine.api_keys import ApiKeys
from botpool.engine.replica import Replica
from botpool.settings import Settings
from botpool.settings.sections import PoolSettings
from botpool.store.database import Database
from tests.support.clock import Clock
from tests.support.fences import ANY_ASSIGNMENT
from tests.support.ports import free_port
from tests.support.postgres import TestPostgres
from tests.support.replicas import TEAMS, Stage, pool

BOT_FIELDS = [
    "id",
    "correlationId",
    "platform",
    "meetingUrl",
    "botDisplayName",
    "status",
    "priority",
    "slotName",
    "containerId",
    "attempts",
    "failureReason",
    "failureCode",
    "endReason",
    "artifactCount",
    "createdAt",
    "queuedAt",
    "assignedAt",
    "startedAt",
    "lastHeartbeatAt",
    "finishingAt",
    "endedAt",
    "tenant",
    "createdBy",
    "stalled",
    "joinAt",
    "reserved",
    "onTimeProbability",
    "atRisk",
]
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
LINK = "https://meet.google.com/abc-defg-hij"
RUNNING, OTHERS, MISSING = 1, 2, 999
"""Ids of bots in the shared installation, and an unknown id."""

BOTPOOL = Path(sys.executable).with_name("botpool")
SECRET = "9c41e07d2ab85f36c1e0d4972f6ba853"
INSTALLATION = "http-tests"
PROGRAM = ("sleep", "3600")
READY_S = 120.0
STOP_S = 60.0
TABLES = (
    "tenants",
    "pools",
    "bots",
    "bot_pool_slots",
    "bot_pool_queue",
    "assignments",
    "bot_heartbeats",
    "bot_artifacts",
    "bot_screenshots",
    "bot_outputs",
    "bot_commands",
    "history",
    "api_keys",
    "dashboard_sessions",
    "idempotency_keys",
    "webhooks",
    "webhook_deliveries",
)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def contents(url: str) -> dict[str, list[str]]:
    """All rows of the database, which a refused request must not change."""
    with psycopg.connect(url, autocommit=True) as connection:
        return {
            table: [
                row for (row,) in connection.execute(f"SELECT t::text FROM {table} t ORDER BY 1")
            ]
            for table in TABLES
        }


@contextmanager
def unchanged(url: str) -> Iterator[None]:
    """Check that the block does not change the database."""
    before = contents(url)
    yield
    after = contents(url)
    changed = {name: (before[name], after[name]) for name in TABLES if before[name] != after[name]}
    assert not changed, f"rows before and after: {changed}"


def assert_problem(answer: httpx.Response, status: int, *words: str) -> dict[str, Any]:
    """Check a problem response whose detail contains these words; returns its body."""
    assert answer.status_code == status, (answer.status_code, answer.text[:500])
    assert answer.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = answer.json()
    assert set(problem) - {"errors", "limit"} == {"type", "title", "status", "detail"}, problem
    assert problem["status"] == status
    assert problem["type"] == "about:blank"
    assert problem["title"] and problem["detail"]
    assert len(problem["detail"]) < 400, "the detail is longer than one line"
    for word in words:
        assert word.lower() in problem["detail"].lower(), problem
    if status == 422:
        assert problem["errors"], "the errors of the fields are missing"
        assert all(error["field"] and error["message"] for error in problem["errors"])
    return problem


async def pages_of(api: "Api", path: str, part: str, **query: Any) -> list[list[Any]]:
    """Return all pages of a list, as an operator sees them."""
    pages: list[list[Any]] = []
    cursor: dict[str, str] = {}
    while True:
        answer = await api.client.get(path, params=query | cursor, headers=api.operator)
        assert answer.status_code == 200, answer.text
        pages.append(answer.json()[part])
        if answer.json()["nextCursor"] is None:
            return pages
        cursor = {"cursor": answer.json()["nextCursor"]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """The application of one replica, and headers for each kind of caller."""

    stage: Stage
    replica: Replica
    app: FastAPI
    client: httpx.AsyncClient
    api_keys: Mapping[str, str] = field(repr=False)

    @property
    def user(self) -> dict[str, str]:
        return bearer(self.api_keys["user"])

    @property
    def operator(self) -> dict[str, str]:
        return bearer(self.api_keys["operator"])

    @property
    def admin(self) -> dict[str, str]:
        return bearer(self.api_keys["admin"])

    def agent(self, bot_id: int) -> dict[str, str]:
        """The headers of the agent of a bot's latest assignment."""
        return bearer(latest_token(self.stage.url, bot_id, self.replica.identity.agent_keys[0]))

    async def post(self, path: str, body: Any = None, **headers: str) -> httpx.Response:
        return await self.client.post(path, json=body, headers={**self.user, **headers})

    async def get(self, path: str, **query: Any) -> httpx.Response:
        return await self.client.get(path, params=query, headers=self.user)

    async def delete(self, path: str) -> httpx.Response:
        return await self.client.delete(path, headers=self.user)

    async def create(self, **fields: Any) -> dict[str, Any]:
        """Create a bot with these fields and return the response."""
        body = {"meetingUrl": LINK} | fields
        answer = await self.post("/v1/bots", body)
        assert answer.status_code == 201, answer.text
        created: dict[str, Any] = answer.json()
        return created

    async def running(self, **fields: Any) -> dict[str, Any]:
        """Create a bot and wait until its container is observed running."""
        created = await self.create(**fields)
        await self.stage.settle(self.replica)
        return await self.bot(created["bot"]["id"])

    async def bot(self, bot_id: int) -> dict[str, Any]:
        bot: dict[str, Any] = (await self.get(f"/v1/bots/{bot_id}")).json()["bot"]
        return bot

    async def report(self, bot_id: int, status: str, **more: Any) -> httpx.Response:
        return await self.client.post(
            f"/v1/agent/bots/{bot_id}/status",
            json={"status": status, **more},
            headers=self.agent(bot_id),
        )


@asynccontextmanager
async def api_over(
    stage: Stage,
    *pools: PoolSpec,
    allowed_hosts: tuple[str, ...] = ("*",),
    policy: Policy | None = None,
) -> AsyncIterator[Api]:
    """The API without a socket. As in a server, an exception becomes a response."""
    replica = await stage.replica(*pools, policy=policy)
    settings = Settings(
        pools={spec.pool_name: PoolSettings(allowed_hosts=allowed_hosts) for spec in pools}
    )
    app = create_app(replica, settings)
    scopes = ("user", "operator", "admin")
    keys = {scope: (await replica.api_keys.create(f"{scope} key", scope))[1] for scope in scopes}
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://botpool.test") as client:
        yield Api(stage=stage, replica=replica, app=app, client=client, api_keys=keys)


@asynccontextmanager
async def shared_installation(postgres: TestPostgres, template: str) -> AsyncIterator[Api]:
    """An installation with two running bots, one queued and one cancelled bot."""
    url = postgres.create_database(template)
    async with (
        Stage.set(url, Clock(url)) as stage,
        api_over(stage, pool(2), pool(0, TEAMS)) as api,
    ):
        for bot_id in (RUNNING, OTHERS):
            assert (await api.running())["id"] == bot_id
        await api.create(platform="teams")
        cancelled = await api.create(platform="teams")
        await api.delete(f"/v1/bots/{cancelled['bot']['id']}")
        yield api
    postgres.drop_database(url)


def latest_token(url: str, bot_id: int, agent_key: bytes) -> str:
    query = "SELECT max(id) FROM assignments WHERE bot_id = %s"
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(query, [bot_id]).fetchone()
    assert row and row[0], f"bot {bot_id} was never assigned"
    return agent_token(AssignmentId(row[0]), agent_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A `botpool serve` process and its address."""

    url: str
    port: int
    database_url: str
    process: subprocess.Popen[bytes]

    def new_key(self, scope: str) -> str:
        async def create() -> str:
            database = Database(self.database_url, max_connections=2)
            await database.open()
            try:
                return (await ApiKeys(database).create(f"{scope} of a test", scope))[1]
            finally:
                await database.close()

        return asyncio.run(create())

    def token(self, bot_id: int) -> str:
        return latest_token(self.database_url, bot_id, derive_key(SECRET, Purpose.AGENTS))


def environment(**settings: str) -> dict[str, str]:
    """The environment of this process, with these settings of Botpool and no others."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("BOTPOOL_") and name != "DATABASE_URL"
    }
    return kept | settings


@contextmanager
def served(
    database_url: str,
    directory: Path,
    *,
    max_size: int = 3,
    more_settings: str = "",
    **settings: str,
) -> Iterator[Server]:
    """Run `botpool serve` with local processes that sleep; stop all of them at the end."""
    config = directory / "botpool.toml"
    pools = [f"[pools.{name}]\nmax_size = {max_size}" for name in ("google-meet", "teams", "zoom")]
    parts = (*pools, "[backends.process]", f"command = {list(PROGRAM)}", more_settings)
    config.write_text("\n".join(parts))
    port = free_port()
    log = directory / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [BOTPOOL, "serve", f"--config={config}", f"--port={port}", f"--data-dir={directory}"],
            env=environment(
                DATABASE_URL=database_url,
                BOTPOOL_INSTALLATION__ID=INSTALLATION,
                BOTPOOL_INSTALLATION__SECRET=SECRET,
                BOTPOOL_BACKENDS__PROCESS__ALLOW_SHARED_USER="true",
                BOTPOOL_DEPLOY__POLL_INTERVAL_S="0.2",
                **settings,
            ),
            stdout=output,
            stderr=output,
        )
    server = Server(
        url=f"http://127.0.0.1:{port}", port=port, database_url=database_url, process=process
    )
    try:
        _await_ready(server, log)
        yield server
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_S)
        _remove_containers(directory / "containers")


def _await_ready(server: Server, log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and server.process.poll() is None:
        with suppress(httpx.TransportError):
            if httpx.get(f"{server.url}/readyz").status_code == 200:
                return
        time.sleep(0.05)
    raise RuntimeError(f"the server did not start:\n{log.read_text()}")


def _remove_containers(root: Path) -> None:
    """Delete the containers, which survive a stop of `serve` by design."""

    async def remove() -> None:
        backend = ProcessBackend(root, INSTALLATION, PROGRAM)
        await backend.open()
        try:
            for found in await backend.list_owned(timeout_s=STOP_S):
                await backend.delete(
                    found.container_id, stop_through=ANY_ASSIGNMENT, timeout_s=STOP_S
                )
        finally:
            await backend.close()

    asyncio.run(remove())
