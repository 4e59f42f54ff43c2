"""API keys, dashboard sessions, and routes without a key."""

import hashlib
import hmac
import time
from collections.abc import AsyncIterator

import pytest

from botpool.backends.protocol import Health
from botpool.engine.dashboard_sessions import SESSION_S
from tests.support.http_server import (
    LINK,
    Api,
    api_over,
    assert_problem,
    bearer,
    contents,
    unchanged,
)
from tests.support.replicas import Stage, pool

COOKIE = "botpool_session"
SAME_ORIGIN = {"Origin": "http://botpool.test"}


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
    assert set(created) == {
        "id", "name", "scope", "tenant", "prefix", "createdAt", "expiresAt", "revokedAt",
        "lastUsedAt", "overlapEndsAt", "minPriority",
    }  # fmt: skip
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
    assert answer.json() == {"name": "user key", "scope": "user", "tenant": "default"}
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


async def test_sign_out_ends_the_session_itself(api: Api) -> None:
    copied, other = await cookie_of(api, "user"), await cookie_of(api, "user")
    ended = await api.client.delete("/v1/session", headers=copied)
    assert (ended.status_code, ended.content) == (204, b"")
    assert f'{COOKIE}=""' in ended.headers["set-cookie"]
    assert_problem(await api.client.get("/v1/bots", headers=copied), 401)
    assert (await api.client.get("/v1/bots", headers=other)).status_code == 200


async def test_sign_in_ends_the_former_session_of_the_browser(api: Api) -> None:
    former = await cookie_of(api, "admin")
    await api.client.post("/v1/session", headers=api.user | former)
    assert_problem(await api.client.get("/v1/bots", headers=former), 401)


async def test_session_has_an_absolute_end(api: Api) -> None:
    session = await cookie_of(api, "user")
    again = await api.client.post("/v1/session", headers=session | SAME_ORIGIN)
    assert again.status_code == 200
    assert "set-cookie" not in again.headers, "a session must not extend itself"
    api.stage.clock.move(SESSION_S - 60)
    assert (await api.client.get("/v1/bots", headers=session)).status_code == 200
    api.stage.clock.move(61)
    assert_problem(await api.client.get("/v1/bots", headers=session), 401)
    await cookie_of(api, "user")
    assert len(contents(api.stage.url)["dashboard_sessions"]) == 1, "ended sessions are deleted"


async def test_session_ends_with_its_key(api: Api) -> None:
    answer = await api.client.post("/v1/keys", json={"name": "short"}, headers=api.admin)
    key_id, secret = answer.json()["key"]["id"], answer.json()["secret"]
    opened = await api.client.post("/v1/session", headers=bearer(secret))
    api.client.cookies.clear()
    session = {"Cookie": f"{COOKIE}={opened.cookies[COOKIE]}"}
    assert (await api.client.get("/v1/bots", headers=session)).status_code == 200
    await api.client.delete(f"/v1/keys/{key_id}", headers=api.admin)
    assert_problem(await api.client.get("/v1/bots", headers=session), 401)


async def test_cookie_that_is_signed_with_the_secret_is_no_session(api: Api) -> None:
    body = f"1.{int(time.time()) + 3600}"
    for key in (*api.replica.identity.agent_keys, b"changeme"):
        signature = hmac.new(key, f"botpool session {body}".encode(), hashlib.sha256).hexdigest()
        forged = {"Cookie": f"{COOKIE}={body}.{signature}"}
        assert_problem(await api.client.get("/v1/bots", headers=forged), 401)


async def test_database_keeps_only_the_hash_of_a_session(api: Api) -> None:
    session = await cookie_of(api, "user")
    (row,) = contents(api.stage.url)["dashboard_sessions"]
    assert session["Cookie"].partition("=")[2] not in row


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
        "pausedEgresses": {},
    }


@pytest.mark.parametrize("path", ["/v1/bots", "/v1/keys/x", "/v1/unknown", "/v1/session"])
async def test_responses_are_not_cached_and_not_sniffed(api: Api, path: str) -> None:
    answer = await api.client.get(path, headers=api.user)
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/v1/bots/1%2Flogs", "/v1%2fbots", "/v1/bots%5C1", "/%2F"])
async def test_encoded_slash_is_refused(api: Api, path: str) -> None:
    assert_problem(await api.client.get(path, headers=api.admin), 400, "encoded slash")


async def test_link_replaces_the_session_of_another_key_only_on_request(api: Api) -> None:
    session = await cookie_of(api, "admin")
    asked = await api.client.post("/v1/session?replace=false", headers=api.user | session)
    assert_problem(asked, 409, "signed in as 'admin key' (admin), not as 'user key' (user)")
    assert "set-cookie" not in asked.headers
    same = await api.client.post("/v1/session?replace=false", headers=api.admin | session)
    assert (same.status_code, "set-cookie" in same.headers) == (200, False)
    assert (await api.client.get("/v1/keys", headers=session)).status_code == 200
    ended = {"Cookie": f"{COOKIE}=ended"}
    new = await api.client.post("/v1/session?replace=false", headers=api.user | ended)
    assert (new.status_code, "set-cookie" in new.headers) == (200, True)


async def test_readiness_shows_addresses_only_to_operators(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def check(*, timeout_s: float) -> Health:
        return Health(ok=False, detail="backends.docker.host: no answer from tcp://10.0.0.5:2376")

    async def outage() -> str:
        return 'The database does not answer: connection to server at "db.internal" failed'

    monkeypatch.setattr(api.stage.backend, "check", check)
    monkeypatch.setattr(api.replica.readiness, "_database_problem", outage)
    for headers, is_shown in (({}, False), (api.user, False), (api.operator, True)):
        answer = await api.client.get("/readyz", headers=headers)
        assert answer.status_code == 503
        shown = answer.text
        assert ("10.0.0.5" in shown, "db.internal" in shown) == (is_shown, is_shown)
        assert "backends.docker.host: no answer" in shown
        assert "The database does not answer" in shown


async def test_readiness_blames_no_setting_for_a_replica_that_stops(api: Api) -> None:
    api.replica.readiness.drain()
    answer = await api.client.get("/readyz")
    assert answer.status_code == 503
    assert answer.json()["problem"] == "This replica is about to stop."
