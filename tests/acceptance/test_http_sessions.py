"""API keys, dashboard sessions, and routes without a key."""

from collections.abc import AsyncIterator

import pytest

from tests.support.http_server import LINK, Api, api_over, assert_problem, bearer, unchanged
from tests.support.replicas import Stage, pool

COOKIE = "botpool_session"


@pytest.fixture
async def api(stage: Stage) -> AsyncIterator[Api]:
    async with api_over(stage, pool(1)) as api:
        yield api


async def cookie_of(api: Api, scope: str) -> dict[str, str]:
    answer = await api.client.post("/v1/session", headers=bearer(api.api_keys[scope]))
    assert answer.status_code == 200, answer.text
    api.client.cookies.clear()  # each request says itself what it carries
    return {"Cookie": f"{COOKIE}={answer.cookies[COOKIE]}"}


async def test_key_is_accepted_in_both_headers(api: Api) -> None:
    key = api.api_keys["user"]
    for rights in (bearer(key), {"Authorization": f"bearer {key}"}, {"X-API-Key": key}):
        assert (await api.client.get("/v1/bots", headers=rights)).status_code == 200


@pytest.mark.parametrize(
    ("scope", "allowed"), [("user", 1), ("operator", 2), ("admin", 3)], ids=lambda value: str(value)
)
async def test_scope_includes_lower_scopes(api: Api, scope: str, allowed: int) -> None:
    answers = [
        (await api.client.get(path, headers=bearer(api.api_keys[scope]))).status_code
        for path in ("/v1/bots", "/v1/slots", "/v1/keys")
    ]
    assert answers == [200] * allowed + [403] * (3 - allowed)


async def test_key_is_created_shown_once_and_revoked(api: Api) -> None:
    answer = await api.client.post("/v1/keys", json={"name": "team"}, headers=api.admin)
    assert answer.status_code == 201
    created, secret = answer.json()["key"], answer.json()["secret"]
    assert set(created) == {"id", "name", "scope", "prefix", "createdAt", "revokedAt"}
    assert (created["name"], created["scope"], created["revokedAt"]) == ("team", "user", None)
    assert secret.startswith(created["prefix"])
    assert (await api.client.get("/v1/bots", headers=bearer(secret))).status_code == 200
    listed = await api.client.get("/v1/keys", headers=api.admin)
    assert created in listed.json()["keys"]
    assert secret not in listed.text
    revoked = await api.client.delete(f"/v1/keys/{created['id']}", headers=api.admin)
    assert revoked.status_code == 202
    assert revoked.json()["revokedAt"].endswith("Z")
    assert_problem(await api.client.get("/v1/bots", headers=bearer(secret)), 401)
    with unchanged(api.stage.url):
        again = await api.client.delete(f"/v1/keys/{created['id']}", headers=api.admin)
    assert again.json() == revoked.json()


async def test_session_cookie_has_secure_attributes(api: Api) -> None:
    answer = await api.client.post("/v1/session", headers=api.user)
    assert answer.json() == {"name": "user key", "scope": "user"}
    value, *attributes = answer.headers["set-cookie"].split("; ")
    assert value.startswith(f"{COOKIE}=")
    assert api.api_keys["user"] not in value
    assert {attribute.lower() for attribute in attributes} == {
        "httponly",
        "samesite=strict",
        "path=/",
        "max-age=604800",
    }
    secure = await api.client.post("https://botpool.test/v1/session", headers=api.user)
    assert "Secure" in secure.headers["set-cookie"].split("; ")


async def test_session_has_the_scope_of_its_key(api: Api) -> None:
    session = await cookie_of(api, "user")
    assert (await api.client.get("/v1/bots", headers=session)).status_code == 200
    assert_problem(await api.client.get("/v1/slots", headers=session), 403)


@pytest.mark.parametrize(
    "said",
    [
        {},
        {"Origin": "https://evil.example"},
        {"Origin": "http://botpool.test.evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://botpool.test", "Sec-Fetch-Site": "cross-site"},
        {"Origin": "http://botpool.test", "Sec-Fetch-Site": "same-site"},
    ],
    ids=str,
)
async def test_session_refuses_changes_from_another_origin(api: Api, said: dict[str, str]) -> None:
    elsewhere = await cookie_of(api, "admin") | said
    with unchanged(api.stage.url):
        for method, path in [("POST", "/v1/bots"), ("DELETE", "/v1/keys/1"), ("POST", "/v1/keys")]:
            sent = {"meetingUrl": LINK} if path == "/v1/bots" else {"name": "mine"}
            answer = await api.client.request(method, path, json=sent, headers=elsewhere)
            assert_problem(answer, 403, "must come from this origin")


@pytest.mark.parametrize(
    "said",
    [
        {"Origin": "http://botpool.test"},
        {"Origin": "https://bots.example.org", "Sec-Fetch-Site": "same-origin"},  # through a proxy
    ],
    ids=str,
)
async def test_session_allows_changes_from_its_own_origin(api: Api, said: dict[str, str]) -> None:
    session = await cookie_of(api, "user") | said
    answer = await api.client.post("/v1/bots", json={"meetingUrl": LINK}, headers=session)
    assert answer.status_code == 201


async def test_expired_session_gives_401(api: Api) -> None:
    await api.client.post("/v1/session", headers=api.user)
    assert (await api.client.get("/v1/bots")).status_code == 200
    ended = await api.client.delete("/v1/session")
    assert (ended.status_code, ended.content) == (204, b"")
    assert f'{COOKIE}=""' in ended.headers["set-cookie"]
    assert_problem(await api.client.get("/v1/bots"), 401)


async def test_health_and_readiness_need_no_key(api: Api) -> None:
    alive = await api.client.get("/healthz")
    assert (alive.status_code, alive.json()) == (200, {"status": "ok"})
    ready = await api.client.get("/readyz")
    assert ready.status_code == 200
    assert ready.json() == {
        "ready": True,
        "problem": None,
        "listening": False,
        "backends": {"process": {"ok": True, "detail": ""}},
    }
