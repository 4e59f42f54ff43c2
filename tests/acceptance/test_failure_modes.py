"""Failure modes of bots and containers, each caused for real in a running installation.

Bots are processes that crash, hang or never start. A test writes to the database directly only for
the state that Botpool never writes: an ended bot in a busy slot.
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

from botpool.store.migrator import migrate
from tests.support.invariants import assert_settled
from tests.support.postgres import TestPostgres
from tests.support.server import FINAL, Installation, installation, none_left

LINK = "https://meet.google.com/abc-defg-hij"
LONG_CALL = {"joinSeconds": 0, "staySeconds": 3600}
SETTINGS = {
    "pools.google-meet.max_size": "1",
    "queue.poll_interval_ms": "100",
    "deploy.poll_interval_s": "1",
    "recovery.interval_s": "1",
    "agent.heartbeat_interval_ms": "500",
}

NEVER_UP = {"backends.process.first_start_s": "3600", "recovery.deploying_timeout_s": "2"}


@pytest.fixture
def extra_settings() -> Mapping[str, str]:
    """Settings of one test."""
    return {}


@pytest.fixture
async def installed(
    postgres: TestPostgres, tmp_path: Path, extra_settings: Mapping[str, str]
) -> AsyncIterator[Installation]:
    url = postgres.create_database()
    migrate(url)
    async with installation(url, tmp_path, SETTINGS | extra_settings) as installed:
        await installed.serve()
        yield installed
    postgres.drop_database(url)


@pytest.fixture
async def user(installed: Installation) -> AsyncIterator[httpx.AsyncClient]:
    async with installed.client(installed.servers[0]) as user:
        yield user


async def post(user: httpx.AsyncClient, **bot_data: Any) -> int:
    response = await user.post(
        "/v1/bots", json={"meetingUrl": LINK, "botData": LONG_CALL | bot_data}
    )
    assert response.status_code == 201, response.text
    bot_id: int = response.json()["bot"]["id"]
    return bot_id


async def wait_for_status(user: httpx.AsyncClient, bot_id: int, *statuses: str) -> dict[str, Any]:
    """Wait for one of these statuses and return the bot."""
    bot: dict[str, Any] = {}

    async def other() -> list[str]:
        bot.update((await user.get(f"/v1/bots/{bot_id}")).json()["bot"])
        return [] if bot["status"] in statuses else [bot["status"]]

    await none_left(f"bots that should be {' or '.join(statuses)}", other, within_s=150)
    return bot


async def slot_statuses(user: httpx.AsyncClient) -> list[str]:
    """Return the statuses of the only slot, in order."""
    (slot,) = (await user.get("/v1/slots")).json()["slots"]
    events = (await user.get(f"/v1/slots/{slot['id']}/history")).json()["events"]
    return [event["to"] for event in reversed(events) if event["kind"] == "slot.status"]


async def assert_slot_is_reusable(installed: Installation, user: httpx.AsyncClient) -> None:
    """Check that no process is left and that the next bot gets the slot."""
    await none_left("processes left over", installed.left_over, within_s=60)
    after = await post(user, staySeconds=0)
    assert (await wait_for_status(user, after, *FINAL))["status"] == "DONE"

    async def occupied() -> list[Any]:
        return installed.rows("SELECT slot_name FROM bot_pool_slots WHERE status <> 'idle'")

    await none_left("slots that are not idle", occupied, within_s=60)
    assert_settled(installed.database_url)


def program_of(installed: Installation, bot_id: int) -> psutil.Process:
    for process in installed.processes():
        bot_data = process.environ().get("BOT_DATA")
        if bot_data and json.loads(bot_data)["id"] == bot_id:
            return process
    raise AssertionError(f"bot {bot_id} does not run")


@pytest.mark.parametrize("extra_settings", [{"backends.process.command": "/bin/false"}])
async def test_failed_deployment_is_retried_then_fails_the_bot(
    installed: Installation, user: httpx.AsyncClient
) -> None:
    """The slot goes to error and is reset; the bot is retried and fails with a reason."""
    bot = await wait_for_status(user, await post(user), *FINAL)
    assert (bot["status"], bot["failureCode"], bot["attempts"]) == ("FAILED", "deploy_failed", 2)
    assert bot["failureReason"]
    statuses = await slot_statuses(user)
    assert statuses[:5] == ["idle", "deploying", "releasing", "error", "idle"]
    assert statuses.count("deploying") == 2
    await none_left("processes left over", installed.left_over, within_s=60)
    assert_settled(installed.database_url)


async def test_crashed_container_fails_the_bot_without_retry(
    installed: Installation, user: httpx.AsyncClient
) -> None:
    bot_id = await post(user)
    await wait_for_status(user, bot_id, "IN_CALL")
    program_of(installed, bot_id).send_signal(signal.SIGKILL)
    bot = await wait_for_status(user, bot_id, *FINAL)
    assert (bot["status"], bot["failureCode"]) == ("FAILED", "container_exited")
    assert bot["attempts"] == 1, "a bot that was in a call is not retried"
    await assert_slot_is_reusable(installed, user)


@pytest.mark.parametrize("extra_settings", [{"recovery.heartbeat_freshness_s": "3"}])
async def test_bot_without_heartbeats_is_failed(
    installed: Installation, user: httpx.AsyncClient
) -> None:
    """The container runs, and its agent sends no heartbeats."""
    bot = await wait_for_status(user, await post(user, silent=True), *FINAL)
    assert (bot["status"], bot["failureCode"]) == ("FAILED", "heartbeat_lost")
    await none_left("processes left over", installed.left_over, within_s=60)
    assert_settled(installed.database_url)


@pytest.mark.parametrize("extra_settings", [NEVER_UP])
async def test_deployment_that_never_runs_is_retried_then_fails_the_bot(
    installed: Installation, user: httpx.AsyncClient
) -> None:
    """The program never starts: Botpool stops the container, retries once and fails the bot."""
    bot = await wait_for_status(user, await post(user), *FINAL)
    assert (bot["status"], bot["failureCode"], bot["attempts"]) == ("FAILED", "deploy_failed", 2)
    assert "not running" in bot["failureReason"]
    await none_left("processes left over", installed.left_over, within_s=60)
    assert_settled(installed.database_url)


async def test_busy_slot_of_an_ended_bot_is_released(
    installed: Installation, user: httpx.AsyncClient
) -> None:
    bot_id = await post(user)
    await wait_for_status(user, bot_id, "IN_CALL")
    with psycopg.connect(installed.database_url) as connection:
        connection.execute(
            "UPDATE bots SET status = 'DONE', ended_at = botpool_now() WHERE id = %s", [bot_id]
        )
        connection.execute(
            "INSERT INTO history (kind, bot_id, from_state, to_state, reason) "
            "VALUES ('bot.status', %s, 'IN_CALL', 'DONE', 'by hand')",
            [bot_id],
        )
    await assert_slot_is_reusable(installed, user)
    (reason,) = installed.rows(
        "SELECT reason FROM history WHERE bot_id = %s AND to_state = 'releasing'", bot_id
    )
    assert reason == ("its bot had ended already",)
