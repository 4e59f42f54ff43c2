"""The failure modes of the first design's table, each injected for real into a served Botpool.

Bots are processes; they die, hang and never come up as processes do. The database is touched by
hand only for the one mode that no statement of ours can make: a bot that has ended in a busy slot.
"""

import json
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
import pytest

from botpool.store.migrations import migrate
from tests.support.invariants import assert_settled
from tests.support.postgres import TestPostgres
from tests.support.server import FINAL, Installation, installation, none_left

LINK = "https://meet.google.com/abc-defg-hij"
STAYS = {"joinSeconds": 0, "staySeconds": 3600}
SETTINGS = {
    "pools.google-meet.max_size": "1",
    "queue.poll_interval_ms": "100",
    "deploy.poll_interval_s": "1",
    "recovery.interval_s": "1",
    "agent.heartbeat_interval_ms": "500",
}

NEVER_UP = {"backends.process.first_start_s": "3600", "recovery.deploying_timeout_s": "2"}


@pytest.fixture
def more() -> Mapping[str, str]:
    """Settings of one test."""
    return {}


@pytest.fixture
async def installed(
    postgres: TestPostgres, tmp_path: Path, more: Mapping[str, str]
) -> AsyncIterator[Installation]:
    url = postgres.create_database()
    migrate(url)
    async with installation(url, tmp_path, SETTINGS | more) as made:
        await made.serve()
        yield made
    postgres.drop_database(url)


@pytest.fixture
async def user(installed: Installation) -> AsyncIterator[httpx.AsyncClient]:
    async with installed.client(installed.servers[0]) as user:
        yield user


async def post(user: httpx.AsyncClient, **bot_data: Any) -> int:
    answer = await user.post("/v1/bots", json={"meetingUrl": LINK, "botData": STAYS | bot_data})
    assert answer.status_code == 201, answer.text
    bot_id: int = answer.json()["bot"]["id"]
    return bot_id


async def becomes(user: httpx.AsyncClient, bot_id: int, *statuses: str) -> dict[str, Any]:
    """Wait for one of these statuses; the bot."""
    bot: dict[str, Any] = {}

    async def other() -> list[str]:
        bot.update((await user.get(f"/v1/bots/{bot_id}")).json()["bot"])
        return [] if bot["status"] in statuses else [bot["status"]]

    await none_left(f"bots that should be {' or '.join(statuses)}", other, within_s=90)
    return bot


async def slot_moves(user: httpx.AsyncClient) -> list[str]:
    """Where the one slot has been, in order."""
    (slot,) = (await user.get("/v1/slots")).json()["slots"]
    events = (await user.get(f"/v1/slots/{slot['id']}/history")).json()["events"]
    return [event["to"] for event in reversed(events) if event["kind"] == "slot.status"]


async def slot_serves_again(installed: Installation, user: httpx.AsyncClient) -> None:
    """Nothing runs for nobody, and the next bot gets the slot."""
    await none_left("processes left over", installed.left_over, within_s=60)
    after = await post(user, staySeconds=0)
    assert (await becomes(user, after, *FINAL))["status"] == "DONE"

    async def occupied() -> list[Any]:
        return installed.rows("SELECT slot_name FROM bot_pool_slots WHERE status <> 'idle'")

    await none_left("slots that are not idle", occupied, within_s=60)
    assert_settled(installed.database_url)


def program_of(installed: Installation, bot_id: int) -> psutil.Process:
    for process in installed.processes():
        told = process.environ().get("BOT_DATA")
        if told and json.loads(told)["id"] == bot_id:
            return process
    raise AssertionError(f"bot {bot_id} does not run")


@pytest.mark.parametrize("more", [{"backends.process.command": "/bin/false"}])
async def test_deployment_failed(installed: Installation, user: httpx.AsyncClient) -> None:
    """The slot goes to error and is reset, the bot is tried again, and told why in the end."""
    bot = await becomes(user, await post(user), *FINAL)
    assert (bot["status"], bot["failureCode"], bot["attempts"]) == ("FAILED", "deploy_failed", 2)
    assert bot["failureReason"]
    moves = await slot_moves(user)
    assert moves[:5] == ["idle", "deploying", "releasing", "error", "idle"]
    assert moves.count("deploying") == 2
    await none_left("processes left over", installed.left_over, within_s=60)
    assert_settled(installed.database_url)


async def test_container_crash(installed: Installation, user: httpx.AsyncClient) -> None:
    bot_id = await post(user)
    await becomes(user, bot_id, "IN_CALL")
    program_of(installed, bot_id).send_signal(signal.SIGKILL)
    bot = await becomes(user, bot_id, *FINAL)
    assert (bot["status"], bot["failureCode"]) == ("FAILED", "container_exited")
    assert bot["attempts"] == 1, "what was in a call is not tried again"
    await slot_serves_again(installed, user)


@pytest.mark.parametrize("more", [{"recovery.heartbeat_freshness_s": "3"}])
async def test_container_hangs(installed: Installation, user: httpx.AsyncClient) -> None:
    """Crashed as far as anybody can tell: it runs, and is not heard of any more."""
    bot = await becomes(user, await post(user, silent=True), *FINAL)
    assert (bot["status"], bot["failureCode"]) == ("FAILED", "heartbeat_lost")
    await none_left("processes left over", installed.left_over, within_s=60)
    assert_settled(installed.database_url)


@pytest.mark.parametrize("more", [NEVER_UP])
async def test_stuck_deploying(installed: Installation, user: httpx.AsyncClient) -> None:
    """Nothing comes up: it is stopped, tried once more, and given up; nothing of it is left."""
    bot = await becomes(user, await post(user), *FINAL)
    assert (bot["status"], bot["failureCode"], bot["attempts"]) == ("FAILED", "deploy_failed", 2)
    assert "not running" in bot["failureReason"]
    await none_left("processes left over", installed.left_over, within_s=60)
    assert_settled(installed.database_url)


async def test_bot_ended_but_slot_busy(installed: Installation, user: httpx.AsyncClient) -> None:
    bot_id = await post(user)
    await becomes(user, bot_id, "IN_CALL")
    with psycopg.connect(installed.database_url) as connection:
        connection.execute(
            "UPDATE bots SET status = 'DONE', ended_at = botpool_now() WHERE id = %s", [bot_id]
        )
        connection.execute(
            "INSERT INTO history (kind, bot_id, from_state, to_state, reason) "
            "VALUES ('bot.status', %s, 'IN_CALL', 'DONE', 'by hand')",
            [bot_id],
        )
    await slot_serves_again(installed, user)
    (reason,) = installed.rows(
        "SELECT reason FROM history WHERE bot_id = %s AND to_state = 'releasing'", bot_id
    )
    assert reason == ("its bot had ended already",)
