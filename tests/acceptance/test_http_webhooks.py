"""Webhooks over HTTP: creation, tests, deliveries, replay, rotation, isolation and audit."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from standardwebhooks.webhooks import Webhook as Verifier

from botpool.domain.policy import Policy
from tests.engine.test_webhooks import deliver
from tests.support.clock import Clock
from tests.support.http_server import TIME, Api, api_over, assert_problem, unchanged
from tests.support.postgres import TestPostgres
from tests.support.replicas import Stage, pool
from tests.support.webhook_receiver import Receiver, receiving

WEBHOOK_FIELDS = [
    "id", "url", "description", "events", "tenant", "status", "disabledAt", "disabledReason",
    "failingSince", "lastDeliveredAt", "pausedUntil", "overlapEndsAt", "pending", "failed",
    "createdAt", "createdBy",
]  # fmt: skip
DELIVERY_FIELDS = [
    "id", "eventId", "type", "botId", "status", "attempts", "createdAt", "lastAttemptAt",
    "nextAttemptAt", "durationMs", "request", "response", "problem",
]  # fmt: skip


@pytest.fixture
async def api(postgres: TestPostgres, template: str) -> AsyncIterator[Api]:
    url = postgres.create_database(template)
    policy = Policy(allow_private_webhooks=True)
    async with Stage.set(url, Clock(url)) as stage, api_over(stage, pool(1), policy=policy) as api:
        yield api
    postgres.drop_database(url)


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    async with receiving() as receiver:
        yield receiver


async def create(api: Api, url: str, **fields: Any) -> dict[str, Any]:
    answer = await api.post("/v1/webhooks", {"url": url, **fields})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


async def test_secret_is_shown_once_and_verifies_a_test(api: Api, receiver: Receiver) -> None:
    made = await create(api, receiver.url, description="Bookings", events=["bot.done"])
    webhook, secret = made["webhook"], made["secret"]
    assert list(webhook) == WEBHOOK_FIELDS
    assert webhook["status"] == "active"
    assert webhook["tenant"] == "default", "a user's webhook belongs to the key's tenant"
    assert TIME.fullmatch(webhook["createdAt"])
    assert secret.startswith("whsec_")
    answer = await api.post(f"/v1/webhooks/{webhook['id']}/test")
    assert answer.status_code == 200, answer.text
    delivery = answer.json()["delivery"]
    assert list(delivery) == DELIVERY_FIELDS
    assert (delivery["status"], delivery["response"]) == ("delivered", {"status": 204, "body": ""})
    (request,) = receiver.requests
    Verifier(secret).verify(request.body, dict(request.headers))
    assert request.id == delivery["eventId"]
    assert delivery["request"]["body"] == request.event
    for path in ("", f"/{webhook['id']}", f"/{webhook['id']}/deliveries"):
        assert secret[6:] not in (await api.get(f"/v1/webhooks{path}")).text
    audit = await api.client.get("/v1/audit", headers=api.operator)
    assert secret[6:] not in audit.text
    assert [each["action"] for each in audit.json()["entries"]][:1] == ["webhook.create"]


async def test_deliveries_show_request_answer_and_next_attempt(
    api: Api, receiver: Receiver
) -> None:
    receiver.answer = lambda _: 500
    webhook = (await create(api, receiver.url))["webhook"]
    bot = await api.running()
    await deliver(api.replica)
    path = f"/v1/webhooks/{webhook['id']}"
    (pending,) = (await api.get(f"{path}/deliveries", status="pending")).json()["deliveries"]
    assert pending["botId"] == bot["id"]
    assert pending["type"] == "bot.started"
    assert pending["attempts"] == 1
    assert pending["response"] == {"status": 500, "body": "answer"}
    assert pending["problem"] == "answered 500"
    assert TIME.fullmatch(pending["nextAttemptAt"])
    assert pending["request"]["headers"]["webhook-id"] == pending["eventId"]
    shown = (await api.get(path)).json()["webhook"]
    assert (shown["status"], shown["pending"]) == ("failing", 1)
    receiver.answer = lambda _: 204
    again = await api.post(f"{path}/replay", {})
    assert again.status_code == 202, again.text
    await deliver(api.replica)
    assert (await api.get(path)).json()["webhook"]["status"] == "active"


async def test_deliveries_have_pages(api: Api, receiver: Receiver) -> None:
    webhook = (await create(api, receiver.url))["webhook"]
    path = f"/v1/webhooks/{webhook['id']}"
    for _ in range(3):
        await api.post(f"{path}/test", {"event": "bot.failed"})
    first = (await api.get(f"{path}/deliveries", limit=2)).json()
    rest = (await api.get(f"{path}/deliveries", limit=2, cursor=first["nextCursor"])).json()
    ids = [each["id"] for each in first["deliveries"] + rest["deliveries"]]
    assert len(ids) == 3 and ids == sorted(ids, reverse=True)
    assert rest["nextCursor"] is None


async def test_rotation_returns_a_new_secret(api: Api, receiver: Receiver) -> None:
    made = await create(api, receiver.url)
    path = f"/v1/webhooks/{made['webhook']['id']}"
    rotated = (await api.post(f"{path}/rotate")).json()
    assert rotated["secret"] != made["secret"]
    assert TIME.fullmatch(rotated["webhook"]["overlapEndsAt"])
    await api.post(f"{path}/test")
    (request,) = receiver.requests
    for secret in (made["secret"], rotated["secret"]):
        Verifier(secret).verify(request.body, dict(request.headers))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({}, ["url"]),
        ({"url": "ftp://example.org"}, ["url", "http"]),
        ({"url": "https://user:password@example.org/"}, ["url", "password"]),
        ({"url": "https://example.org/#part"}, ["url", "fragment"]),
        ({"url": "https://" + "a" * 2048}, ["url"]),
        ({"url": "https://example.org", "events": ["bot.exploded"]}, ["events"]),
        ({"url": "https://example.org", "events": []}, ["events"]),
        ({"url": "https://example.org", "tenant": "other"}, ["tenant"]),
        ({"url": "https://example.org", "color": "red"}, ["color"]),
        ({"url": "https://example .org"}, ["url"]),
        ({"url": "https://exa%mple.org"}, ["host"]),
    ],
)
async def test_bad_request_names_its_field(api: Api, body: Any, words: list[str]) -> None:
    with unchanged(api.stage.url):
        assert_problem(await api.post("/v1/webhooks", body), 422, *words)


async def test_private_address_is_refused(postgres: TestPostgres, template: str) -> None:
    url = postgres.create_database(template)
    async with Stage.set(url, Clock(url)) as stage, api_over(stage, pool(1)) as api:
        for host in ("127.0.0.1", "localhost", "[::ffff:10.0.0.1]", "169.254.169.254", "0x7f.1"):
            answer = await api.post("/v1/webhooks", {"url": f"http://{host}/"})
            problem = assert_problem(answer, 422, "webhooks.allow_private_addresses")
            assert problem["errors"][0]["field"] == "url"
    postgres.drop_database(url)


async def test_operators_webhook_covers_all_tenants_and_is_hidden_from_users(
    api: Api, receiver: Receiver
) -> None:
    made = await api.client.post("/v1/webhooks", json={"url": receiver.url}, headers=api.operator)
    webhook = made.json()["webhook"]
    assert webhook["tenant"] is None
    assert (await api.get("/v1/webhooks")).json() == {"webhooks": []}
    assert_problem(await api.get(f"/v1/webhooks/{webhook['id']}"), 404, "no webhook")
    own = await api.client.post(
        "/v1/webhooks", json={"url": receiver.url, "tenant": "default"}, headers=api.operator
    )
    assert own.json()["webhook"]["tenant"] == "default"
    assert len((await api.get("/v1/webhooks")).json()["webhooks"]) == 1


async def test_deleted_webhook_is_gone(api: Api, receiver: Receiver) -> None:
    webhook = (await create(api, receiver.url))["webhook"]
    path = f"/v1/webhooks/{webhook['id']}"
    assert (await api.delete(path)).status_code == 200
    assert_problem(await api.delete(path), 404)
    assert_problem(await api.post(f"{path}/test"), 404)
    await api.running()
    await deliver(api.replica)
    assert not receiver.requests


async def test_replay_takes_one_choice(api: Api, receiver: Receiver) -> None:
    webhook = (await create(api, receiver.url))["webhook"]
    path = f"/v1/webhooks/{webhook['id']}/replay"
    for body in ({"eventId": "evt_1", "since": "2026-01-05T10:00:00Z"}, {"eventId": "msg 1"}):
        assert_problem(await api.post(path, body), 422)
    assert_problem(await api.post(path, {"since": "2026-01-05T10:00:00"}), 422, "since")
    assert_problem(await api.post(path, {"eventId": "evt_1"}), 404, "evt_1")
    assert (await api.post(path, {"since": "0001-01-01T00:00:00+14:00"})).status_code == 202
