"""`botpool mcp` with the SDK's own client, over stdio and over HTTP, against a running Botpool."""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client as McpClient
from mcp import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CallToolResult, ElicitResult

from botpool import Client
from tests.support.http_server import BOTPOOL, Server, environment, served
from tests.support.ports import free_port
from tests.support.postgres import TestPostgres

LINK = "https://meet.google.com/abc-defg-hij?pwd=hunter2"
READ_ONLY = {"explain_bot", "fleet_status", "plan_capacity", "list_problems"}
DESTRUCTIVE = {"stop_bot", "drain_pool"}


@pytest.fixture
def url(postgres: TestPostgres, template: str) -> Iterator[str]:
    url = postgres.create_database(template)
    yield url
    postgres.drop_database(url)


@pytest.fixture
def server(url: str, tmp_path: Path) -> Iterator[Server]:
    with served(url, tmp_path, max_size=0) as server:
        yield server


@pytest.fixture
def keys(server: Server) -> dict[str, str]:
    return {scope: server.new_key(scope) for scope in ("user", "operator", "admin")}


def stdio(server: Server, key: str, **options: Any) -> McpClient:
    command = StdioServerParameters(
        command=str(BOTPOOL),
        args=["mcp"],
        env=environment(BOTPOOL_URL=server.url, BOTPOOL_API_KEY=key),
    )
    return McpClient(command, **options)


@contextmanager
def mcp_over_http(server: Server, tmp_path: Path) -> Iterator[str]:
    port = free_port()
    with (tmp_path / "mcp.log").open("wb") as log:
        process = subprocess.Popen(
            [BOTPOOL, "mcp", "--http", f"--port={port}", f"--url={server.url}"],
            env=environment(),
            stdout=log,
            stderr=log,
        )
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(20)


@asynccontextmanager
async def over_http(address: str, key: str | None, **options: Any) -> AsyncIterator[McpClient]:
    headers = {} if key is None else {"Authorization": f"Bearer {key}"}
    async with httpx2.AsyncClient(headers=headers, trust_env=False, timeout=30) as http:
        while True:  # Until the server listens.
            try:
                await http.get(address)
                break
            except httpx2.TransportError:
                await asyncio.sleep(0.1)
        transport = streamable_http_client(address, http_client=http)
        async with McpClient(transport, **options) as client:
            yield client


async def call(client: McpClient, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, text_of(result)
    found: dict[str, Any] = json.loads(text_of(result))
    return found


async def refusal(client: McpClient, tool: str, **arguments: Any) -> str:
    result = await client.call_tool(tool, arguments)
    assert result.is_error, text_of(result)
    return text_of(result)


def text_of(result: CallToolResult) -> str:
    return "".join(getattr(part, "text", "") for part in result.content)


async def test_operator_uses_all_tools_over_stdio(server: Server, keys: dict[str, str]) -> None:
    with Client(server.url, keys["operator"]) as botpool:
        bot = botpool.create(LINK)
        async with stdio(server, keys["operator"]) as client:
            tools = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
            assert set(tools) == READ_ONLY | DESTRUCTIVE
            for name, annotations in tools.items():
                assert annotations is not None
                assert annotations.read_only_hint is (name in READ_ONLY)
                assert bool(annotations.destructive_hint) is (name in DESTRUCTIVE)
            explained = await call(client, "explain_bot", bot_id=bot.id)
            assert "QUEUED" in explained["summary"] and "number 1" in explained["summary"]
            assert "hunter2" not in json.dumps(explained)
            status = await call(client, "fleet_status")
            assert (status["queued"], len(status["pools"])) == (1, 3)
            (problem,) = (await call(client, "list_problems"))["problems"]
            assert problem["pool"] == "google-meet"
            plan = await call(client, "plan_capacity", pool="google-meet", days=1)
            assert plan["platform"] == "google-meet"

            refused = await refusal(client, "stop_bot", bot_id=bot.id)
            assert f"confirm='bot {bot.id}'" in refused
            refused = await refusal(client, "stop_bot", bot_id=bot.id, confirm="bot 99")
            assert "Nothing was done" in refused
            assert botpool.get(bot.id).status == "QUEUED"
            stopped = await call(client, "stop_bot", bot_id=bot.id, confirm=f"bot {bot.id}")
            assert stopped == {"bot": bot.id, "status": "CANCELLED"}
            assert "To do it" in await refusal(client, "drain_pool", pool="google-meet")
            await call(client, "drain_pool", pool="google-meet", confirm="google-meet")
            assert botpool.pool("google-meet").drained


async def test_client_that_can_ask_its_user_does_so(server: Server, keys: dict[str, str]) -> None:
    asked: list[str] = []
    no, yes = {"confirmed": False}, {"confirmed": True}
    answers = iter([("decline", None), ("accept", no), ("accept", yes)])

    async def ask(_: Any, params: Any) -> ElicitResult:
        asked.append(params.message)
        action, content = next(answers)
        return ElicitResult(action=action, content=content)  # type: ignore[arg-type]

    with Client(server.url, keys["operator"]) as botpool:
        bot = botpool.create(LINK)
        async with stdio(server, keys["user"], elicitation_callback=ask) as client:
            await refusal(client, "stop_bot", bot_id=bot.id)
            assert "did not confirm" in await refusal(client, "stop_bot", bot_id=bot.id)
            assert botpool.get(bot.id).status == "QUEUED"
            assert (await call(client, "stop_bot", bot_id=bot.id))["status"] == "CANCELLED"
    assert len(asked) == 3 and f"Bot {bot.id} will leave" in asked[0]


async def test_each_request_over_http_has_the_rights_of_its_own_key(
    server: Server, keys: dict[str, str], tmp_path: Path
) -> None:
    with Client(server.url, keys["admin"]) as admin:
        admin.create_tenant("sales")
        sales = admin.create_key("sales", tenant="sales").secret
        assert sales is not None
        others = admin.create(LINK)
        with Client(server.url, sales) as botpool:
            own = botpool.create(LINK)
        with mcp_over_http(server, tmp_path) as address:
            async with over_http(address, sales) as client:
                assert (await call(client, "explain_bot", bot_id=own.id))["bot"][
                    "tenant"
                ] == "sales"
                assert "no bot" in await refusal(client, "explain_bot", bot_id=others.id)
                name = f"bot {others.id}"
                assert "no bot" in await refusal(client, "stop_bot", bot_id=others.id, confirm=name)
                assert "scope 'operator'" in await refusal(client, "fleet_status")
                drain = {"pool": "google-meet", "confirm": "google-meet"}
                assert "scope 'operator'" in await refusal(client, "drain_pool", **drain)
            async with over_http(address, keys["operator"]) as client:
                assert (await call(client, "fleet_status"))["queued"] == 2
            async with over_http(address, None) as client:
                assert "Authorization: Bearer" in await refusal(client, "fleet_status")
            async with over_http(address, "bpk_wrong") as client:
                await refusal(client, "explain_bot", bot_id=own.id)
        assert admin.get(others.id).status == "QUEUED"


def test_command_without_the_extra_names_the_package() -> None:
    code = "import sys; sys.modules['mcp'] = None; from botpool.cli import main; main(['mcp'])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "pip install 'botpool[mcp]'" in ran.stderr and ran.stderr.count("\n") == 1, ran.stderr
