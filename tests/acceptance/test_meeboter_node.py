"""A bot with the public npm packages @trpc/client and superjson, against a running Botpool."""

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.components import missing
from tests.support.http_server import LINK, Server, bearer, served
from tests.support.postgres import TestPostgres

PACKAGES = Path(".venv/trpc-client").absolute()
BOT = Path(__file__).with_name("node") / "meeboter_bot.mjs"
LIMIT_S = 120.0
POOL = f"""
[pools.meeboter]
max_size = 1
protocol = "meeboter"
command = ["node", "{BOT}"]

[pools.meeboter.env]
TRPC_PACKAGES = "{PACKAGES}"
SCENARIO = "{{botData.scenario}}"
"""


@pytest.fixture(scope="module")
def server(
    postgres: TestPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    if not (PACKAGES / "node_modules/@trpc/client").exists():
        missing("@trpc/client", "run scripts/install-test-packages, which needs npm")
    url = postgres.create_database(template)
    with served(url, tmp_path_factory.mktemp("served"), more_settings=POOL) as server:
        yield server
    postgres.drop_database(url)


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[httpx.Client]:
    headers = bearer(server.new_key("user"))
    with httpx.Client(base_url=server.url, headers=headers, timeout=LIMIT_S) as client:
        yield client


def until(condition: Any) -> Any:
    deadline = time.monotonic() + LIMIT_S
    while not (found := condition()):
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.05)
    return found


def get_bot(client: httpx.Client, bot_id: int) -> Any:
    return client.get(f"/v1/bots/{bot_id}").json()["bot"]


def start(server: Server, client: httpx.Client, scenario: str) -> tuple[Any, Any]:
    """Send a bot, and run Meeboter's side of it as its container would."""
    # The demo bot in the container falls silent, so that it does not end the bot before Node does.
    bot_data = {"userId": "u1", "silent": True}
    created = client.post("/v1/bots", json={"meetingUrl": LINK, "botData": bot_data})
    bot_id = created.json()["bot"]["id"]
    bot = until(lambda: (b := get_bot(client, bot_id))["startedAt"] and b)
    return bot, run_node(server, bot, scenario)


def run_node(server: Server, bot: Any, scenario: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        ["node", str(BOT)],
        env={
            "PATH": "/usr/bin:/bin:/usr/local/bin",
            "NODE_ENV": "production",
            "MILO_URL": server.url,
            "MILO_AUTH_TOKEN": server.token(bot["id"]),
            "POOL_SLOT_UUID": bot["containerId"],
            "TRPC_PACKAGES": str(PACKAGES),
            "SCENARIO": scenario,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output_of(node: "subprocess.Popen[str]") -> dict[str, Any]:
    """Wait for the end of the bot and return what it said."""
    text, errors = node.communicate(timeout=LIMIT_S)
    assert node.returncode == 0, errors + text
    said: dict[str, Any] = {}
    for line in text.splitlines():
        said |= json.loads(line)
    return said


@pytest.mark.parametrize("scenario", ["meeting", "restart"])
def test_meeting_with_chat_and_log_ends_done(
    server: Server, client: httpx.Client, scenario: str
) -> None:
    bot, node = start(server, client, scenario)
    path = f"/v1/bots/{bot['id']}"
    until(lambda: get_bot(client, bot["id"])["status"] == "IN_CALL")
    client.post(f"{path}/commands", json={"kind": "chat", "data": {"text": "hello"}})
    until(lambda: client.get(f"{path}/commands").json()["commands"][0]["state"] == "acknowledged")
    client.delete(path)
    said = output_of(node)
    assert said["config"] == {"platform": "google-meet", "undefinedUrl": True}
    assert said["chat"] == ["hello", "u1"]
    assert said["log"] == {"received": 1}
    assert said["flush"] == {"success": True}
    assert said["status"] == ["DONE", True]
    assert "Container should exit" in said["exit"]
    ended = get_bot(client, bot["id"])
    assert (ended["status"], ended["endReason"], ended["artifactCount"]) == ("DONE", "left", 1)
    events = client.get(f"{path}/events", params={"limit": 500}).json()["events"]
    kinds = [event["kind"] for event in events]
    assert kinds.count("agent.joining_call") == (2 if scenario == "restart" else 1)
    assert {"agent.log", "agent.speaker_timeframes"} <= set(kinds)


def test_fatal_bot_fails_with_its_reason_and_screenshot(
    server: Server, client: httpx.Client
) -> None:
    bot, node = start(server, client, "fatal")
    said = output_of(node)
    assert said["screenshot"] == [201, "error"]
    assert said["status"] == "FATAL"
    failed = get_bot(client, bot["id"])
    assert (failed["status"], failed["failureCode"]) == ("FAILED", "meeting_failed")
    assert failed["failureReason"] == "The host removed the bot."
    (shown,) = client.get(f"/v1/bots/{bot['id']}/screenshots").json()["screenshots"]
    assert shown["note"] == "error IN_CALL fatal"


def test_released_container_exits(server: Server, client: httpx.Client) -> None:
    bot, node = start(server, client, "fatal")
    output_of(node)
    again = output_of(run_node(server, bot, "meeting"))
    assert list(again) == ["exit"]


def test_pool_runs_the_bot_with_the_environment_that_it_expects(client: httpx.Client) -> None:
    """Botpool starts the bot, and keeps its output when the slot serves another bot."""
    ids = []
    for text in ("first", "second"):
        body = {
            "meetingUrl": LINK,
            "platform": "meeboter",
            "botData": {"scenario": "meeting", "userId": text},
        }
        bot_id = client.post("/v1/bots", json=body).json()["bot"]["id"]
        until(lambda at=bot_id: get_bot(client, at)["status"] == "IN_CALL")
        command = {"kind": "chat", "data": {"text": text}}
        client.post(f"/v1/bots/{bot_id}/commands", json=command)
        path = f"/v1/bots/{bot_id}/commands"
        until(lambda at=path: client.get(at).json()["commands"][0]["state"] == "acknowledged")
        client.delete(f"/v1/bots/{bot_id}")
        until(lambda at=bot_id: get_bot(client, at)["status"] == "DONE")
        ids.append(bot_id)
    assert len({get_bot(client, each)["containerId"] for each in ids}) == 1
    for bot_id, text in zip(ids, ("first", "second"), strict=True):
        output = until(lambda at=bot_id: client.get(f"/v1/bots/{at}/logs").text)
        assert f'{{"chat":["{text}","{text}"]}}' in output
