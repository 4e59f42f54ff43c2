"""The correlation id, from the request to the agent's last call."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
import structlog
import uvicorn

from botpool import logs
from botpool.agent import Agent
from botpool.backends.protocol import StartRequest
from tests.support.http_server import LINK, Api, api_over, latest_token
from tests.support.replicas import Stage, pool

ID = "request-7f3c"


@pytest.fixture
def written() -> Iterator[list[dict[str, Any]]]:
    """Every log line as JSON, and the values that were bound to it."""
    lines: list[dict[str, Any]] = []

    class Writer:
        def msg(self, line: str) -> None:
            bound = structlog.contextvars.get_contextvars().get("correlation_id")
            lines.append(json.loads(line) | {"bound": bound})

        info = warning = error = msg

    structlog.configure(
        processors=logs.processors(for_people=False), logger_factory=lambda *_: Writer()
    )
    yield lines
    structlog.reset_defaults()


@pytest.fixture
async def api(stage: Stage) -> AsyncIterator[Api]:
    async with api_over(stage, pool(1)) as api:
        yield api


@asynccontextmanager
async def on_a_socket(api: Api) -> AsyncIterator[str]:
    """Serve the application on a socket for an agent; yields the address."""
    transport = api.client._transport
    assert isinstance(transport, httpx.ASGITransport)
    config = uvicorn.Config(
        transport.app, port=0, log_config=None, access_log=False, lifespan="off", ws="none"
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server._serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await serving


async def test_correlation_id_is_in_every_log_line_and_history_row(
    api: Api, written: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    orders: list[StartRequest] = []
    start = api.stage.backend.start

    async def started(order: StartRequest, *, timeout_s: float) -> Any:
        orders.append(order)
        return await start(order, timeout_s=timeout_s)

    monkeypatch.setattr(api.stage.backend, "start", started)

    # The request and its response.
    answer = await api.post("/v1/bots", {"meetingUrl": LINK}, **{"X-Correlation-ID": ID})
    assert answer.headers["X-Correlation-ID"] == ID
    bot_id = answer.json()["bot"]["id"]
    assert answer.json()["bot"]["correlationId"] == ID

    # The call to the backend and the container's environment.
    await api.stage.step(api.replica)
    (order,) = orders
    assert order.correlation_id == ID
    assert json.loads(order.environment["BOT_DATA"])["correlationId"] == ID

    # The agent reads the id from its environment and sends it with every call.
    heads: list[str] = []
    async with on_a_socket(api) as url:
        environment = dict(order.environment) | {"BOTPOOL_URL": url}
        assert environment["BOTPOOL_TOKEN"] == latest_token(
            api.stage.url, bot_id, api.replica.identity.agent_keys[0]
        )
        agent = Agent.from_environment(environment)
        request = agent._transport._request

        def noted(method: str, path: str, body: str | None) -> bytes:
            head = request(method, path, body)
            heads.append(head.decode())
            return head

        monkeypatch.setattr(agent._transport, "_request", noted)
        async with agent:
            await agent.report("IN_CALL")
            assert await agent.flush(10)
    assert len(heads) >= 3
    assert all(f"X-Correlation-ID: {ID}\r\n" in head for head in heads)
    await api.stage.settle(api.replica)
    assert (await api.bot(bot_id))["status"] == "DONE"

    # Every history row and every log line of this bot.
    rows = api.stage.rows("SELECT correlation_id FROM history WHERE bot_id = %s", bot_id)
    assert len(rows) >= 8
    assert {row["correlation_id"] for row in rows} == {ID}
    about = [line for line in written if line.get("bot") == bot_id]
    assert {line["correlation_id"] for line in about} == {ID}
    moves = [(line["from"], line["to"]) for line in about if "from" in line]
    assert moves == [
        ("idle", "deploying"),
        ("deploying", "busy"),
        ("JOINING_CALL", "IN_CALL"),
        ("busy", "releasing"),
        ("releasing", "idle"),
    ]
    # Log lines of an agent's call have the id that the agent sent. Ends are batched with those of
    # other bots, each with its own id.
    by_agent = [line for line in about if "agent" in line.get("reason", "")]
    assert [line["bound"] for line in by_agent] == [
        None if line["to"] == "releasing" else ID for line in by_agent
    ]
    assert len(by_agent) == 3


async def test_correlation_id_is_generated_if_absent(
    api: Api, written: list[dict[str, Any]]
) -> None:
    bot = (await api.create())["bot"]
    (assigned,) = [line for line in written if line.get("point") == "assign"]
    # The bot's own id, not that of another bot in the same batch.
    assert assigned["correlation_id"] == bot["correlationId"]


async def test_request_errors_are_logged_with_the_correlation_id(
    api: Api, written: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(type(api.replica.admission), "find", broken)
    answer = await api.client.get("/v1/bots/1", headers=api.user | {"X-Correlation-ID": ID})
    assert answer.status_code == 500
    (line,) = [line for line in written if line["event"] == "request.failed"]
    assert line["correlation_id"] == ID


@pytest.mark.parametrize("sent", ["with space", "x" * 129, "", "ü"])
async def test_invalid_correlation_id_is_not_logged(
    api: Api, written: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, sent: str
) -> None:
    async def broken(*_: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr(type(api.replica.admission), "find", broken)
    headers = [(key.encode(), text.encode()) for key, text in api.user.items()]
    headers.append((b"X-Correlation-ID", sent.encode("latin-1")))
    await api.client.get("/v1/bots/1", headers=headers)
    (line,) = [line for line in written if line["event"] == "request.failed"]
    assert line["correlation_id"] is None
