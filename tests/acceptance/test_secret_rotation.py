"""Rotations of the installation's secret and of a key under a live bot."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from botpool.domain.ids import AssignmentId
from botpool.domain.installation_secret import Purpose, derive_key, new_secret
from botpool.domain.tokens import agent_token
from tests.support.postgres import TestPostgres
from tests.support.server import Installation, client, installation, none_left

LINK = "https://meet.google.com/abc-defg-hij"
LONG_CALL = {"joinSeconds": 0, "staySeconds": 3600}
SETTINGS = {"agent.heartbeat_interval_ms": "300", "agent.leave_grace_s": "120"}
WAIT_S = 60.0


@pytest.fixture
async def installed(
    postgres: TestPostgres, template: str, tmp_path: Path
) -> AsyncIterator[Installation]:
    url = postgres.create_database(template)
    async with installation(url, tmp_path, SETTINGS) as installed:
        yield installed
    postgres.drop_database(url)


async def start_bot(user: httpx.AsyncClient) -> int:
    answer = await user.post("/v1/bots", json={"meetingUrl": LINK, "botData": LONG_CALL})
    bot_id: int = answer.json()["bot"]["id"]
    await wait_for(user, bot_id, status="IN_CALL")
    return bot_id


async def wait_for(user: httpx.AsyncClient, bot_id: int, **expected: str) -> None:
    async def differences() -> Mapping[str, Any]:
        bot = (await user.get(f"/v1/bots/{bot_id}")).json()["bot"]
        return {name: bot[name] for name, value in expected.items() if bot[name] != value}

    await none_left("fields with another value", differences, within_s=WAIT_S)


async def test_live_bots_survive_a_rotation_of_the_secret(installed: Installation) -> None:
    old, new = installed.secret, new_secret()
    server = await installed.serve()
    async with installed.client(server) as user:
        before = await start_bot(user)
        # As for several replicas: first every replica accepts the new secret, then it signs.
        for order in ((old, new), (new, old)):
            await server.stop()
            settings = {"installation.secrets": ",".join(order)}
            server = await installed.serve(server.port, settings=settings)
        after = await start_bot(user)
        for bot_id in (before, after):
            await user.delete(f"/v1/bots/{bot_id}")
            # DONE, not CANCELLED: the agent's calls are accepted, and it leaves by itself.
            await wait_for(user, bot_id, status="DONE")
        ((assignment_id,),) = installed.rows(
            "SELECT max(id) FROM assignments WHERE bot_id = %s", after
        )
        for secret, status in ((old, 200), (new, 200), (new_secret(), 401)):
            token = agent_token(AssignmentId(assignment_id), derive_key(secret, Purpose.AGENTS))
            answer = await user.post(
                f"/v1/agent/bots/{after}/heartbeat", headers={"Authorization": f"Bearer {token}"}
            )
            assert answer.status_code == status, answer.text


async def test_live_bot_and_its_user_survive_a_rotation_of_the_key(installed: Installation) -> None:
    """The user changes to the new key some time after the rotation."""
    server = await installed.serve()
    async with installed.client(server) as admin:
        created = (await admin.post("/v1/keys", json={"name": "team"})).json()
        async with client(server.url, created["secret"]) as user:
            bot_id = await start_bot(user)
            path = f"/v1/keys/{created['key']['id']}/rotate"
            rotated = (await admin.post(path, json={"overlapMs": 3_600_000})).json()
            assert (await user.get(f"/v1/bots/{bot_id}")).json()["bot"]["status"] == "IN_CALL"
        async with client(server.url, rotated["secret"]) as user:
            assert (await user.get(f"/v1/bots/{bot_id}")).json()["bot"]["status"] == "IN_CALL"
            assert (await user.delete(f"/v1/bots/{bot_id}")).status_code == 202
            await wait_for(user, bot_id, status="DONE")
