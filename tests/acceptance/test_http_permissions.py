"""Permissions: without the right key or token, requests get nothing and change nothing."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from botpool.domain.ids import AssignmentId
from botpool.domain.tokens import agent_token
from tests.support.http_server import (
    LINK,
    MISSING,
    OTHERS,
    RUNNING,
    Api,
    assert_problem,
    bearer,
    shared_installation,
    unchanged,
)
from tests.support.postgres import TestPostgres

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(postgres: TestPostgres, template: str) -> AsyncIterator[Api]:
    async with shared_installation(postgres, template) as api:
        yield api


@pytest_asyncio.fixture(loop_scope="module")
async def api(shared: Api) -> AsyncIterator[Api]:
    """The shared installation. The test must not change it."""
    with unchanged(shared.stage.url):
        yield shared


async def test_agent_token_gives_access_to_its_own_bot_only(api: Api) -> None:
    stranger = api.agent(RUNNING)
    theirs = (await api.bot(OTHERS))["containerId"]
    for container in (theirs, "nowhere", "\0"):
        answer = await api.client.get(
            "/v1/agent/slot", params={"containerId": container}, headers=stranger
        )
        assert_problem(answer, 404, "no container")
    for bot in (OTHERS, MISSING):
        for call, sent in [
            ("heartbeat", None),
            ("status", {"status": "DONE"}),
            ("events", {"events": [{"kind": "a"}]}),
        ]:
            path = f"/v1/agent/bots/{bot}/{call}"
            assert_problem(
                await api.client.post(path, json=sent, headers=stranger), 404, f"no bot {bot}"
            )


def user_calls() -> Iterator[tuple[str, str]]:
    yield "POST", "/v1/bots"
    yield "POST", "/v1/session"
    yield "DELETE", f"/v1/bots/{RUNNING}"
    for path in (
        "",
        f"/{RUNNING}",
        f"/{RUNNING}/logs",
        f"/{RUNNING}/events",
        f"/{RUNNING}/timeline",
    ):
        yield "GET", f"/v1/bots{path}"
    yield "GET", "/v1/queue"
    yield "GET", "/v1/events"


def operator_calls() -> Iterator[tuple[str, str]]:
    for path in ("pools", "pools/google-meet", "pools/google-meet/activity"):
        yield "GET", f"/v1/{path}"
    yield "GET", "/v1/audit"
    for path in ("slots", "slots/1", "slots/1/history", "slots/1/assignments"):
        yield "GET", f"/v1/{path}"
    for path in ("slots/1/cordon", "slots/1/uncordon", "pools/teams/drain", "pools/teams/undrain"):
        yield "POST", f"/v1/{path}"
    yield "DELETE", "/v1/slots/1"


def admin_calls() -> Iterator[tuple[str, str]]:
    yield "GET", "/v1/keys"
    yield "POST", "/v1/keys"
    yield "DELETE", "/v1/keys/1"


def agent_calls() -> Iterator[tuple[str, str]]:
    yield "GET", "/v1/agent/slot?containerId=x"
    for call in ("heartbeat", "status", "events"):
        yield "POST", f"/v1/agent/bots/{RUNNING}/{call}"


SENT = {
    "/v1/bots": {"meetingUrl": LINK},
    "/v1/keys": {"name": "mine", "scope": "admin"},
    f"/v1/agent/bots/{RUNNING}/status": {"status": "DONE"},
    f"/v1/agent/bots/{RUNNING}/events": {"events": [{"kind": "a"}]},
}


async def request(api: Api, method: str, path: str, rights: dict[str, Any]) -> httpx.Response:
    sent = SENT.get(path) if method == "POST" else None
    return await api.client.request(method, path, json=sent, headers=rights)


async def test_every_route_needs_a_key(api: Api) -> None:
    for method, path in (*user_calls(), *operator_calls(), *admin_calls()):
        answer = await request(api, method, path, {})
        assert_problem(answer, 401, "Authorization: Bearer <key>")
        assert answer.headers["www-authenticate"] == "Bearer"
    for method, path in agent_calls():
        assert_problem(await request(api, method, path, {}), 401, "BOTPOOL_TOKEN")


async def test_routes_check_the_scope_of_the_key(api: Api) -> None:
    for method, path in (*operator_calls(), *admin_calls()):
        answer = await request(api, method, path, api.user)
        assert_problem(answer, 403, "yours has 'user'")
    for method, path in admin_calls():
        answer = await request(api, method, path, api.operator)
        assert_problem(answer, 403, "needs a key with scope 'admin'; yours has 'operator'")


async def test_keys_and_tokens_are_not_interchangeable(api: Api) -> None:
    for method, path in agent_calls():
        assert_problem(await request(api, method, path, api.admin), 401, "BOTPOOL_TOKEN")
    for method, path in (*user_calls(), *operator_calls(), *admin_calls()):
        assert_problem(await request(api, method, path, api.agent(RUNNING)), 401, "valid API key")


def wrong_credentials(api: Api) -> Iterator[dict[str, Any]]:
    key = api.api_keys["admin"]
    for text in ("", "x", key[:-1], key + "x", key.swapcase(), "é", "x" * 60_000):
        yield {"Authorization": f"Bearer {text}".encode()}
        yield {"X-API-Key": text.encode()}
    yield {"Authorization": key}
    yield {"Authorization": f"Basic {key}"}
    yield {"Authorization": b"Bearer \xff\xfe"}
    for cookie in ("", "x", "1.9999999999.", "1.9999999999.é", "....", f"{'9' * 5000}.1.0"):
        yield {"Cookie": f"botpool_session={cookie}".encode()}


async def test_wrong_keys_give_401(api: Api) -> None:
    for wrong in wrong_credentials(api):
        assert_problem(await request(api, "GET", "/v1/bots", wrong), 401, "valid API key")


async def test_revoked_key_gives_401(shared: Api) -> None:
    made = (await shared.client.post("/v1/keys", json={"name": "x"}, headers=shared.admin)).json()
    session = await shared.client.post("/v1/session", headers=bearer(made["secret"]))
    assert session.status_code == 200
    shared.client.cookies.clear()
    await shared.client.delete(f"/v1/keys/{made['key']['id']}", headers=shared.admin)
    with unchanged(shared.stage.url):
        cookie = f"botpool_session={session.cookies['botpool_session']}"
        for rights in (bearer(made["secret"]), {"Cookie": cookie}):
            assert_problem(await request(shared, "GET", "/v1/bots", rights), 401, "valid API key")


async def test_forged_agent_tokens_give_401(api: Api) -> None:
    token = api.agent(RUNNING)["Authorization"].removeprefix("Bearer ")
    prefix, number, signature = token.split(".")
    stolen = agent_token(AssignmentId(1), b"another installation's secret")
    for forged in (
        stolen,
        token[:-1],
        token + "0",
        f"{prefix}.{number}.",
        f"{prefix}.{number}.{'0' * 64}",
        f"{prefix}.{int(number) + 1}.{signature}",
        f"{prefix}.{number}.é",
        f"{prefix}.\N{FULLWIDTH DIGIT ONE}.{signature}",
        f"{prefix}.-{number}.{signature}",
        f"{prefix}.+{number}.{signature}",
        f"{prefix}. {number}.{signature}",
        f"{prefix}.{2**63}.{signature}",
        f"{prefix}.{'9' * 5000}.{signature}",
        f"bpk.{number}.{signature}",
        "..",
    ):
        rights: dict[str, Any] = {"Authorization": b"Bearer " + forged.encode()}
        for method, path in agent_calls():
            assert_problem(await request(api, method, path, rights), 401, "BOTPOOL_TOKEN")


async def test_signed_token_of_an_unknown_assignment_changes_nothing(api: Api) -> None:
    """A restored database does not know the assignments of the lost time; their agents exit."""
    secret = api.replica.identity.agent_keys[0]
    rights = bearer(agent_token(AssignmentId(2**63 - 1), secret))
    before = (await request(api, "GET", f"/v1/bots/{RUNNING}", api.user)).json()
    responses = {
        path.rpartition("/")[2].partition("?")[0]: await request(api, method, path, rights)
        for method, path in agent_calls()
    }
    assert_problem(responses.pop("slot"), 404)
    assert responses.pop("heartbeat").json() == {
        "shouldLeave": True,
        "shouldExit": True,
        "commands": [],
    }
    assert_problem(responses.pop("status"), 404, "no assignment")
    assert responses.pop("events").status_code == 200
    assert not responses, "another call of agents"
    assert (await request(api, "GET", f"/v1/bots/{RUNNING}", api.user)).json() == before
