"""The audit log: every administrative action has a row with its actor."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import psycopg
import pytest
from structlog.testing import capture_logs

from botpool.api.listener import listening_socket
from botpool.api.server import HttpServer
from botpool.cli.database import _with_database_at
from botpool.domain.audit import Actor, current_actor
from botpool.engine.api_keys import ApiKeys
from botpool.engine.audit import announce
from botpool.store.audit import prune_audit
from botpool.store.database import Database
from tests.support.http_server import LINK, Api, api_over, assert_problem
from tests.support.replicas import Stage, pool


@pytest.fixture
async def api(stage: Stage) -> AsyncIterator[Api]:
    async with api_over(stage, pool(2)) as api:
        yield api


async def entries(api: Api, **query: Any) -> list[dict[str, Any]]:
    answer = await api.client.get(
        "/v1/audit", params=query, headers={"X-API-Key": api.api_keys["operator"]}
    )
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["entries"]
    return found


async def send(api: Api, method: str, path: str, *, scope: str, **more: Any) -> Any:
    headers = {"X-API-Key": api.api_keys[scope], "X-Correlation-ID": "change-4711"}
    answer = await api.client.request(method, path, headers=headers, **more)
    assert answer.is_success, answer.text
    return answer.json() if answer.content else None


async def test_keys_leave_rows_with_actor_address_and_values(api: Api) -> None:
    created = await send(api, "POST", "/v1/keys", scope="admin", json={"name": "ci"})
    key = f"key {created['key']['id']}"
    path = f"/v1/keys/{created['key']['id']}"
    rotated = await send(api, "POST", f"{path}/rotate", scope="admin", json={})
    await send(api, "DELETE", path, scope="admin")
    revoke, rotate, create = await entries(api, target=key)
    assert [each["action"] for each in (create, rotate, revoke)] == [
        "key.create",
        "key.rotate",
        "key.revoke",
    ]
    for entry in (create, rotate, revoke):
        assert entry["actor"] == "admin key"
        assert entry["tenant"] == "default"
        assert entry["address"] == "127.0.0.1"
        assert entry["correlationId"] == "change-4711"
        for secret in (created["secret"], rotated["secret"]):
            assert secret not in str(entry)
    assert create["before"] is None
    assert (create["after"]["name"], create["after"]["scope"]) == ("ci", "user")
    assert rotate["before"]["prefix"] != rotate["after"]["prefix"]
    assert revoke["before"]["revokedAt"] is None
    assert revoke["after"]["revokedAt"] is not None


async def test_slots_and_pools_leave_rows(api: Api) -> None:
    bot = await api.create()
    (slot,) = (await send(api, "GET", "/v1/slots", scope="operator"))["slots"]
    for path in ("cordon", "uncordon", "release", "recover"):
        await send(api, "POST", f"/v1/slots/{slot['id']}/{path}", scope="operator")
    await send(api, "DELETE", f"/v1/slots/{slot['id']}?force=true", scope="operator")
    for path in ("drain", "undrain"):
        await send(api, "POST", f"/v1/pools/google-meet/{path}", scope="operator")
    await send(api, "POST", "/v1/maintenance/cleanup?force=true", scope="operator")
    found = {each["action"]: each for each in await entries(api, actor="operator key")}
    assert set(found) == {
        "slot.cordon",
        "slot.uncordon",
        "slot.release",
        "slot.recover",
        "slot.delete.force",
        "pool.drain",
        "pool.undrain",
        "maintenance.cleanup.force",
    }
    assert found["slot.cordon"]["before"] == {"cordoned": False}
    assert found["slot.cordon"]["after"] == {"cordoned": True}
    assert found["slot.release"]["before"]["status"] == "deploying"
    assert found["pool.drain"]["before"] == {"drained": False}
    assert found["pool.undrain"]["before"] == {"drained": True}
    assert bot["bot"]["id"]


async def test_tenants_leave_rows(api: Api) -> None:
    await send(api, "POST", "/v1/tenants", scope="admin", json={"name": "sales"})
    await send(api, "PATCH", "/v1/tenants/sales", scope="admin", json={"weight": 3})
    change, create = await entries(api, target="tenant sales")
    assert (create["action"], create["after"]["weight"]) == ("tenant.create", 1)
    assert (change["before"]["weight"], change["after"]["weight"]) == (1, 3)


async def test_refused_change_leaves_no_row(api: Api) -> None:
    headers = {"X-API-Key": api.api_keys["admin"]}
    assert_problem(await api.client.delete("/v1/keys/999999", headers=headers), 404)
    drained = await api.client.post("/v1/pools/nowhere/drain", headers=headers)
    assert drained.status_code == 404
    assert await entries(api, actor="admin key") == []


async def test_sessions_and_refused_sign_ins_leave_rows(api: Api) -> None:
    key = {"Authorization": f"Bearer {api.api_keys['user']}"}
    opened = await api.client.post("/v1/session", headers=key)
    assert opened.status_code == 200
    api.client.cookies.clear()
    wrong = await api.client.post("/v1/session", headers={"Authorization": "Bearer wrong"})
    assert wrong.status_code == 401
    current_actor.set(None)  # In a server, every request begins without an actor.
    cookie = "; ".join(f"{name}={value}" for name, value in opened.cookies.items())
    headers = {"Cookie": cookie, "Sec-Fetch-Site": "same-origin"}
    closed = await api.client.delete("/v1/session", headers=headers)
    assert closed.status_code == 204
    actions = [(each["action"], each["actor"]) for each in await entries(api)]
    assert ("session.begin", "user key") in actions
    assert ("session.refused", "unknown") in actions
    assert ("session.end", "user key") in actions


async def test_history_names_the_key_that_stopped_a_bot(api: Api) -> None:
    """The history said "stopped by its user" when another key had stopped the bot."""
    reasons = []
    for scope in ("user", "operator"):
        body = {"meetingUrl": LINK}
        bot_id = (await send(api, "POST", "/v1/bots", scope="user", json=body))["bot"]["id"]
        await send(api, "DELETE", f"/v1/bots/{bot_id}", scope=scope)
        path = f"/v1/bots/{bot_id}/events"
        events = (await send(api, "GET", path, scope="user"))["events"]
        reasons.append(next(each["reason"] for each in events if each["to"] == "CANCELLED"))
        last = bot_id
    assert reasons == ["stopped by its user", "stopped by key 'operator key'"]
    (stop,) = await entries(api, action="bot.stop")
    assert (stop["target"], stop["actor"]) == (f"bot {last}", "operator key")


async def test_log_is_paginated_and_for_operators(api: Api) -> None:
    for _ in range(5):
        await send(api, "POST", "/v1/pools/google-meet/drain", scope="operator")
    headers = {"X-API-Key": api.api_keys["operator"]}
    seen, cursor = [], None
    while True:
        query = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = (await api.client.get("/v1/audit", params=query, headers=headers)).json()
        seen += [entry["id"] for entry in page["entries"]]
        cursor = page["nextCursor"]
        if cursor is None:
            break
    assert seen == sorted(seen, reverse=True)
    assert len(seen) == 5
    refused = await api.client.get("/v1/audit", headers={"X-API-Key": api.api_keys["user"]})
    assert_problem(refused, 403)


async def test_failed_authentication_is_counted_and_logged_once_in_a_while(api: Api) -> None:
    with capture_logs() as lines:
        for _ in range(5):
            answer = await api.client.get("/v1/bots", headers={"X-API-Key": "wrong"})
            assert answer.status_code == 401
        token = {"Authorization": "Bearer wrong"}
        assert (await api.client.get("/v1/agent/slot", headers=token)).status_code == 401
    logged = [line for line in lines if line["event"] == "authentication.failed"]
    assert len(logged) == 1
    assert logged[0]["kind"] == "key"
    text = (await api.replica.metrics_export.text()).decode()
    assert 'botpool_authentication_failures_total{kind="key"} 5.0' in text
    assert 'botpool_authentication_failures_total{kind="token"} 1.0' in text


async def test_rows_cannot_be_changed_and_end_with_their_retention(api: Api) -> None:
    current_actor.set(Actor(name="test"))
    await announce(api.replica.database, "test.action", "nothing")
    with psycopg.connect(api.stage.url, autocommit=True) as connection:
        for change in (
            "UPDATE audit_log SET actor = 'another'",
            "DELETE FROM audit_log",
            "TRUNCATE audit_log",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege, match="append-only"):
                connection.execute(change)
    assert await prune_audit(api.replica.database, days=365, limit=10) == []
    api.stage.clock.move(366 * 86_400)
    assert len(await prune_audit(api.replica.database, days=365, limit=10)) == 1
    assert await entries(api) == []


async def test_command_at_the_database_is_recorded_as_cli(api: Api) -> None:
    async def create(database: Database) -> int:
        return (await ApiKeys(database).create("by hand", "admin"))[0].id

    key_id = await asyncio.create_task(_with_database_at(api.stage.url, create))
    (entry,) = await entries(api, target=f"key {key_id}")
    assert (entry["actor"], entry["action"], entry["address"]) == ("cli", "key.create", None)


@asynccontextmanager
async def served(api: Api, *trusted_proxies: str) -> AsyncIterator[httpx.AsyncClient]:
    """The API behind a socket, whose peer is 127.0.0.1."""
    ready = asyncio.Event()
    with listening_socket("127.0.0.1", 0) as listener:
        server = HttpServer(api.app, listener, trusted_proxies=trusted_proxies)
        task = asyncio.create_task(server.serve(on_ready=ready.set))
        await ready.wait()
        try:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            async with httpx.AsyncClient(base_url=url, timeout=60) as client:
                yield client
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().remove_signal_handler(number)


@pytest.mark.parametrize(
    ("trusted_proxies", "forwarded", "address"),
    [
        (["127.0.0.1"], "203.0.113.9", "203.0.113.9"),
        (["127.0.0.0/8"], "203.0.113.9", "203.0.113.9"),
        # The client itself wrote the first address; the proxy appended the one that it saw.
        (["127.0.0.1"], "10.0.0.1, 203.0.113.9", "203.0.113.9"),
        (["127.0.0.1", "198.51.100.7"], "203.0.113.9, 198.51.100.7", "203.0.113.9"),
        ([], "203.0.113.9", "127.0.0.1"),
        (["198.51.100.7"], "203.0.113.9", "127.0.0.1"),
    ],
    ids=["proxy", "network", "spoofed through proxy", "two proxies", "none", "untrusted peer"],
)
async def test_address_comes_from_trusted_proxies_only(
    api: Api, trusted_proxies: list[str], forwarded: str, address: str
) -> None:
    headers = {"X-API-Key": api.api_keys["operator"], "X-Forwarded-For": forwarded}
    async with served(api, *trusted_proxies) as client:
        answer = await client.post("/v1/pools/google-meet/drain", headers=headers)
        assert answer.status_code == 202, answer.text
        refused = await client.get("/v1/bots", headers=headers | {"X-API-Key": "wrong"})
        assert refused.status_code == 401
    (entry,) = await entries(api, action="pool.drain")
    assert entry["address"] == address
