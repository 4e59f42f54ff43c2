"""Hostile bodies: no key, too large, or with so many fields that validation would take long."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.support.http_server import (
    LINK,
    RUNNING,
    Api,
    assert_problem,
    shared_installation,
    unchanged,
)
from tests.support.postgres import TestPostgres

pytestmark = pytest.mark.asyncio(loop_scope="module")

JSON = {"Content-Type": "application/json"}
BROKEN = b'{"a":'


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(postgres: TestPostgres, template: str) -> AsyncIterator[Api]:
    async with shared_installation(postgres, template) as api:
        yield api


@pytest_asyncio.fixture(loop_scope="module")
async def api(shared: Api) -> AsyncIterator[Api]:
    with unchanged(shared.stage.url):
        yield shared


async def operations_with_body(api: Api) -> list[tuple[str, str]]:
    document = (await api.client.get("/openapi.json")).json()
    return [
        (method.upper(), path.replace("{id}", str(RUNNING)))
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if "requestBody" in operation
    ]


async def test_body_is_read_only_after_authentication(api: Api) -> None:
    """Without a key, a body that is not JSON gets 401: nothing parsed it."""
    operations = await operations_with_body(api)
    assert len(operations) > 4
    for method, path in operations:
        for headers in ({}, {"Authorization": "Bearer bpk_unknown"}, {"X-API-Key": "unknown"}):
            read = 0

            async def content() -> AsyncIterator[bytes]:
                nonlocal read
                for _ in range(8):
                    read += 1
                    yield BROKEN * 2000

            answer = await api.client.request(
                method, path, content=content(), headers=headers | JSON
            )
            assert_problem(answer, 401)
            assert read <= 1, f"{method} {path} read the body"


async def test_scope_is_checked_before_the_body_is_read(api: Api) -> None:
    for path in ("/v1/keys", "/v1/keys/1/rotate"):
        answer = await api.client.post(path, content=BROKEN, headers=api.user | JSON)
        assert_problem(answer, 403, "admin")


@pytest.mark.parametrize("declared", [True, False])
async def test_request_for_a_bot_is_limited_to_128_kib(api: Api, declared: bool) -> None:
    body = json.dumps({"meetingUrl": LINK, "x": "x" * 128 * 1024}).encode()

    async def pieces() -> AsyncIterator[bytes]:
        for n in range(0, len(body), 16_384):
            yield body[n : n + 16_384]

    content: Any = body if declared else pieces()
    answer = await api.client.post("/v1/bots", content=content, headers=api.user | JSON)
    assert_problem(answer, 413, "131072 bytes")


async def test_bot_data_of_64_kib_fits_into_a_request(api: Api) -> None:
    """The request passes the limits of its size, and fails only because of its pool."""
    for character in ("x", "ü", "語"):
        size = (64 * 1024 - len('{"a":""}')) // len(character.encode())
        body = {"meetingUrl": LINK, "platform": "nowhere", "botData": {"a": character * size}}
        content = json.dumps(body, ensure_ascii=False).encode()
        answer = await api.client.post("/v1/bots", content=content, headers=api.user | JSON)
        assert_problem(answer, 422, "There is no pool 'nowhere'")


def unknown_fields(count: int) -> dict[str, int]:
    return {f"{n:x}": 0 for n in range(count)}


EVENTS = f"/v1/agent/bots/{RUNNING}/events"
HOSTILE: dict[str, tuple[str, Any]] = {
    "bot": ("/v1/bots", {"meetingUrl": LINK} | unknown_fields(10_000)),
    "events": (EVENTS, {"events": []} | unknown_fields(95_000)),
    "event": (EVENTS, {"events": [{"kind": "chat"} | unknown_fields(95_000)]}),
    "many large events": (EVENTS, {"events": [unknown_fields(51) for _ in range(100)]}),
    "many events": (EVENTS, {"events": [unknown_fields(50) for _ in range(100)]}),
    "too many events": (EVENTS, {"events": [{} for _ in range(200_000)]}),
    "status": (f"/v1/agent/bots/{RUNNING}/status", unknown_fields(10_000)),
    "heartbeat": (f"/v1/agent/bots/{RUNNING}/heartbeat", unknown_fields(10_000)),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_number_of_errors_is_bounded(
    api: Api, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each error of validation costs time, also those that the response does not show."""
    monkeypatch.setattr("botpool.api.validation_messages._MAX_ERRORS", 10**9)
    path, body = HOSTILE[name]
    headers = api.user if path == "/v1/bots" else api.agent(RUNNING)
    content = json.dumps(body, separators=(",", ":")).encode()
    answer = await api.client.post(path, content=content, headers=headers | JSON)
    problem = assert_problem(answer, 422)
    assert len(problem["errors"]) <= 52 * 100


async def test_too_many_unknown_fields_are_one_error(api: Api) -> None:
    body = {"meetingUrl": LINK} | unknown_fields(10_000)
    answer = await api.client.post("/v1/bots", json=body, headers=api.user)
    problem = assert_problem(answer, 422, "body: has 10001 fields")
    assert len(problem["errors"]) == 1
