"""Invalid input never causes a 500, and no error changes anything.

Each error is one problem that names the fault. After each test, the database must be unchanged.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.support.http_server import (
    LINK,
    MISSING,
    RUNNING,
    Api,
    assert_problem,
    shared_installation,
    unchanged,
)
from tests.support.postgres import TestPostgres

pytestmark = pytest.mark.asyncio(loop_scope="module")

VALUES: dict[str, Any] = {
    "null": None,
    "bool": True,
    "int": 5,
    "float": 1.5,
    "text": "5",
    "[]": [],
    "{}": {},
}
NULS = {"start": "\0a", "middle": "a\0b", "end": "a\0"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(postgres: TestPostgres, template: str) -> AsyncIterator[Api]:
    async with shared_installation(postgres, template) as api:
        yield api


@pytest_asyncio.fixture(loop_scope="module")
async def api(shared: Api) -> AsyncIterator[Api]:
    """The shared installation. The test must not change it."""
    with unchanged(shared.stage.url):
        yield shared


def named(cases: dict[str, tuple[Any, ...]]) -> list[Any]:
    return [pytest.param(*case, id=name) for name, case in cases.items()]


def body(**fields: Any) -> dict[str, Any]:
    return {"meetingUrl": LINK} | fields


async def send(api: Api, content: bytes, **headers: str) -> httpx.Response:
    sent = {"Content-Type": "application/json", **api.user, **headers}
    return await api.client.post("/v1/bots", content=content, headers=sent)


# Malformed bodies.


@pytest.mark.parametrize(
    ("content", "status", "words"),
    named(
        {
            "empty": (b"", 422, "body: is required"),
            "not JSON": (b"meetingUrl=x", 400, "not valid JSON: Expecting value at character 0"),
            "cut off": (b'{"meetingUrl":', 400, "not valid JSON: Expecting value at character 14"),
            "two values": (b"{} {}", 400, "not valid JSON: Extra data"),
            "not UTF-8": (b'{"meetingUrl": "\xff\xfe"}', 400, "not UTF-8"),
            "raw control character": (b'{"meetingUrl": "a\nb"}', 400, "not valid JSON"),
            "10,000 brackets": (b"[" * 10_000, 400, "nested too deeply"),
            "4,301 digits": (b'{"priority": ' + b"9" * 4301 + b"}", 400, "too many digits"),
            "an array": (b"[]", 422, "body: should be a JSON object"),
            "null": (b"null", 422, "body: should be a JSON object"),
            "a text": (b'"x"', 422, "body: should be a JSON object"),
            "broken field name": (b'{"\\ud800": 1}', 422, "broken Unicode"),
        }
    ),
)
async def test_malformed_body_is_rejected(
    api: Api, content: bytes, status: int, words: str
) -> None:
    assert_problem(await send(api, content), status, words)


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", ""])
async def test_body_with_another_content_type_is_rejected(api: Api, content_type: str) -> None:
    answer = await send(api, json.dumps(body()).encode(), **{"Content-Type": content_type})
    assert_problem(answer, 415, "Content-Type: application/json")


async def test_body_without_a_content_type_is_rejected(api: Api) -> None:
    content = json.dumps(body()).encode()
    answer = await api.client.post("/v1/bots", content=content, headers=api.user)
    assert_problem(answer, 415, "Content-Type: application/json")


async def test_number_of_reported_errors_is_limited(api: Api) -> None:
    fields = {f"{n}{'x' * 500}": n for n in range(50)}
    answer = await api.post("/v1/bots", fields)
    problem = assert_problem(answer, 422, "meetingUrl: is required (and 50 more)")
    assert len(problem["errors"]) <= 20
    assert len(answer.content) < 5000


# Fields of a bot.


@pytest.mark.parametrize(
    ("field", "right"),
    [
        ("meetingUrl", "text"),
        ("botDisplayName", "text"),
        ("platform", "text or null"),
        ("queueTimeoutMs", "int"),
        ("priority", "int"),
        ("botData", "{}"),
    ],
)
async def test_field_of_the_wrong_type_is_rejected(api: Api, field: str, right: str) -> None:
    for wrong in (value for kind, value in VALUES.items() if kind not in right):
        answer = await api.post("/v1/bots", body(**{field: wrong}))
        problem = assert_problem(answer, 422, f"{field}: should be")
        assert [error["field"] for error in problem["errors"]] == [field]


@pytest.mark.parametrize(
    ("fields", "words"),
    named(
        {
            "no link": ({"meetingUrl": "meet.google.com/abc"}, "meetingUrl: should be an http"),
            "no host": ({"meetingUrl": "https://"}, "meetingUrl: should be an http"),
            "no host but a path": ({"meetingUrl": "https:///abc"}, "address with a host"),
            "no host but a port": ({"meetingUrl": "https://:443/a"}, "address with a host"),
            "broken host": ({"meetingUrl": "https://[::1/a"}, "address with a host"),
            "javascript": (
                {"meetingUrl": "javascript:alert(1)//"},
                "meetingUrl: should be an http",
            ),
            "file": ({"meetingUrl": "file:///etc/passwd"}, "meetingUrl: should be an http"),
            "spaces": ({"meetingUrl": f"{LINK}?a=b c"}, "without spaces"),
            "trailing newline": ({"meetingUrl": f"{LINK}\n"}, "without spaces"),
            "8-bit control": ({"meetingUrl": f"{LINK}\x9b"}, "control characters"),
            "2,049 characters": ({"meetingUrl": LINK.ljust(2049, "x")}, "at most 2048"),
            "unreadable platform": (
                {"meetingUrl": "https://example.org/a"},
                "pool cannot be derived from this meetingUrl",
            ),
            "lookalike host": (
                {"meetingUrl": "https://meet.google.com.example.org/a"},
                "pool cannot be derived from this meetingUrl",
            ),
            "unknown platform": (
                {"platform": "webex"},
                "There is no pool 'webex' in the settings. Pools here: google-meet, teams.",
            ),
            "platform in capitals": ({"platform": "Zoom"}, "platform: should be lower-case"),
            "empty platform": ({"platform": ""}, "platform: should be lower-case"),
            "empty name": ({"botDisplayName": ""}, "botDisplayName: should have at least 1"),
            "name of 101": ({"botDisplayName": "x" * 101}, "botDisplayName: should have at most"),
            "escape in name": ({"botDisplayName": "\x1b[2J"}, "botDisplayName: should have no"),
            "queueTimeoutMs 600001": ({"queueTimeoutMs": 600_001}, "less than or equal to 600000"),
            "queueTimeoutMs -1": ({"queueTimeoutMs": -1}, "queueTimeoutMs: should be greater"),
            "queueTimeoutMs 2^63": ({"queueTimeoutMs": 2**63}, "queueTimeoutMs: should be less"),
            "priority 2^31": ({"priority": 2**31}, "priority: should be less than or equal"),
            "priority -2^31": ({"priority": -(2**31)}, "priority: should be greater than or"),
            "priority 1e999": ({"priority": float("inf")}, "priority: should be a valid integer"),
            "botData of one byte more": ({"botData": {"a": "x" * (64 * 1024 - 7)}}, "it has 65537"),
            "botData of multibyte": (
                {"botData": {"a": "é" * 10_000 + "x" * 46_000}},
                "at most 65536 bytes",
            ),
            "botData NaN": ({"botData": {"a": [float("nan")]}}, "botData: should be plain JSON"),
            "botData Infinity": ({"botData": {"a": float("inf")}}, "no infinity"),
            "botData surrogate": ({"botData": {"a": "\ud800"}}, "no broken Unicode"),
            "botData broken name": ({"botData": {"\udfff": 1}}, "no broken Unicode"),
            "unknown field": (
                {"meeting_link": LINK},
                "meeting_link: is not a field of this request",
            ),
        }
    ),
)
async def test_field_out_of_bounds_is_rejected(
    api: Api, fields: dict[str, Any], words: str
) -> None:
    # As Python writes JSON, with NaN, Infinity and escaped lone surrogates.
    problem = assert_problem(await send(api, json.dumps(body(**fields)).encode()), 422, words)
    assert len(problem["errors"]) == 1


@pytest.mark.parametrize("levels", [65, 300, 900])
async def test_too_deeply_nested_bot_data_is_rejected(api: Api, levels: int) -> None:
    nested = b"[" * (levels - 1) + b"]" * (levels - 1)
    content = b'{"meetingUrl": "%s", "botData": {"a": %s}}' % (LINK.encode(), nested)
    assert_problem(await send(api, content), 422, "botData: should be nested at most 64 deep")


@pytest.mark.parametrize("place", NULS)
async def test_nul_characters_are_rejected(api: Api, place: str) -> None:
    text = NULS[place]
    bot = f"/v1/agent/bots/{RUNNING}"
    agent, admin = api.agent(RUNNING), api.admin
    failed = {"status": "FAILED", "failureReason": text}
    for path, headers, sent, field in [
        ("/v1/bots", api.user, body(meetingUrl=LINK + text), "meetingUrl"),
        ("/v1/bots", api.user, body(botDisplayName=text), "botDisplayName"),
        ("/v1/bots", api.user, body(platform=text), "platform"),
        ("/v1/bots", api.user, body(botData={"a": [text]}), "botData"),
        ("/v1/bots", api.user, body(botData={text: 1}), "botData"),
        ("/v1/keys", admin, {"name": text}, "name"),
        ("/v1/keys", admin, {"name": "a", "scope": text}, "scope"),
        (f"{bot}/status", agent, {"status": text}, "status"),
        (f"{bot}/status", agent, failed, "failureReason"),
        (f"{bot}/events", agent, {"events": [{"kind": text}]}, "events.0.kind"),
        (f"{bot}/events", agent, {"events": [{"kind": "a", "data": {"a": text}}]}, "events.0.data"),
    ]:
        answer = await api.client.post(path, json=sent, headers=headers)
        assert_problem(answer, 422, f"{field}: should")
    for path in ("/v1/bots", "/v1/queue", "/v1/slots"):
        answer = await api.client.get(path, params={"platform": text}, headers=admin)
        assert_problem(answer, 422, "platform: should")


# Paths, queries, headers.

WRONG_IDS = ["0", "-1", str(2**63), str(2**64), "9" * 5000, "abc", "1.0", "+1", "1_0", "%201", "٣"]


@pytest.mark.parametrize("wrong", WRONG_IDS, ids=lambda text: text[:20])
async def test_malformed_ids_are_rejected(api: Api, wrong: str) -> None:
    agent = api.agent(RUNNING)
    calls: list[tuple[str, str, dict[str, str], Any]] = [
        ("GET", "/v1/bots/{}", api.user, None),
        ("DELETE", "/v1/bots/{}", api.user, None),
        ("GET", "/v1/bots/{}/logs", api.user, None),
        ("GET", "/v1/bots/{}/events", api.user, None),
        ("GET", "/v1/slots/{}", api.operator, None),
        ("GET", "/v1/slots/{}/history", api.operator, None),
        ("POST", "/v1/slots/{}/cordon", api.operator, None),
        ("DELETE", "/v1/slots/{}", api.operator, None),
        ("DELETE", "/v1/keys/{}", api.admin, None),
        ("POST", "/v1/agent/bots/{}/heartbeat", agent, None),
        ("POST", "/v1/agent/bots/{}/status", agent, {"status": "IN_CALL"}),
        ("POST", "/v1/agent/bots/{}/events", agent, {"events": []}),
    ]
    for method, path, headers, sent in calls:
        answer = await api.client.request(method, path.format(wrong), json=sent, headers=headers)
        assert_problem(answer, 422, "id: ")


async def test_unknown_ids_give_404(api: Api) -> None:
    for method, path, headers, words in [
        ("GET", f"/v1/bots/{MISSING}", api.user, f"no bot {MISSING}"),
        ("DELETE", f"/v1/bots/{MISSING}", api.user, f"no bot {MISSING}"),
        ("GET", f"/v1/bots/{MISSING}/logs", api.user, f"no bot {MISSING}"),
        ("GET", f"/v1/bots/{MISSING}/events", api.user, f"no bot {MISSING}"),
        ("GET", f"/v1/slots/{MISSING}", api.operator, f"no slot {MISSING}"),
        ("POST", f"/v1/slots/{MISSING}/cordon", api.operator, f"no slot {MISSING}"),
        ("DELETE", f"/v1/slots/{MISSING}", api.operator, f"no slot {MISSING}"),
        ("GET", "/v1/pools/webex", api.operator, "no pool webex"),
        ("POST", "/v1/pools/webex/drain", api.operator, "no pool webex"),
        ("DELETE", f"/v1/keys/{MISSING}", api.admin, f"no API key {MISSING}"),
    ]:
        answer = await api.client.request(method, path, headers=headers)
        assert_problem(answer, 404, words)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/v1/bots?limit=0", "limit: should be greater than or equal to 1"),
        ("/v1/bots?limit=501", "limit: should be less than or equal to 500"),
        ("/v1/bots?limit=ten", "limit: should be a whole number"),
        ("/v1/bots?limit=", "limit: should be a whole number"),
        ("/v1/bots?limit=1e1", "limit: should be a whole number"),
        ("/v1/bots?cursor=", "cursor: should be the nextCursor"),
        ("/v1/bots?cursor=-5", "cursor: should be the nextCursor"),
        ("/v1/bots?cursor=9999999999999999999", "cursor: should be the nextCursor"),
        ("/v1/bots?cursor=%D9%A3", "cursor: should be the nextCursor"),
        ("/v1/bots?cursor=1'--", "cursor: should be the nextCursor"),
        ("/v1/bots?status=running", "status: should be 'SCHEDULED'"),
        ("/v1/bots?status=", "status: should be 'SCHEDULED'"),
        ("/v1/bots?platform=Google%20Meet", "platform: should be lower-case"),
        ("/v1/bots?platform=%FF", "platform: should be lower-case"),
        ("/v1/queue?platform=-", "platform: should be lower-case"),
        ("/v1/slots?status=IDLE", "status: should be 'idle'"),
        ("/v1/bots/1/logs?tail=-1", "tail: should be greater than or equal to 0"),
        ("/v1/bots/1/logs?tail=100001", "tail: should be less than or equal to 100000"),
        ("/v1/bots/1/logs?tail=all", "tail: should be a whole number"),
        ("/v1/bots/1/logs?follow=maybe", "follow: should be a valid boolean"),
    ],
)
async def test_query_out_of_bounds_is_rejected(api: Api, path: str, words: str) -> None:
    assert_problem(await api.client.get(path, headers=api.admin), 422, words)


@pytest.mark.parametrize("header", ["Idempotency-Key", "X-Correlation-ID"])
@pytest.mark.parametrize("value", ["", "a b", "a\tb", "x" * 300, "é", "\x7f"])
async def test_invalid_headers_are_rejected(api: Api, header: str, value: str) -> None:
    headers: Any = {**api.user, header: value.encode("latin-1")}
    answer = await api.client.post("/v1/bots", json=body(), headers=headers)
    assert_problem(answer, 422, f"{header}: should")


@pytest.mark.parametrize(
    "path", ["/v1", "/v1/", "/v1/bot", "/v1/bots/", "/v2/bots", "//v1/bots", "/v1/bots/1/", "/x%00"]
)
async def test_unknown_path_gives_404(api: Api, path: str) -> None:
    assert_problem(await api.client.get(path, headers=api.admin), 404, "nothing at this path")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/bots", "GET, POST"),
        ("PUT", "/v1/bots/1", "DELETE, GET, PATCH"),
        ("OPTIONS", "/v1/bots", "GET, POST"),
        ("BREW", "/v1/queue", "GET"),
        ("GET", "/v1/session", "DELETE, POST"),
        ("GET", "/v1/agent/bots/1/heartbeat", "POST"),
        ("POST", "/healthz", "GET"),
    ],
)
async def test_unsupported_method_gives_405_with_the_allowed_ones(
    api: Api, method: str, path: str, allowed: str
) -> None:
    answer = await api.client.request(method, path, headers=api.admin)
    assert_problem(answer, 405, f"allows {allowed}, not {method}")
    assert answer.headers["allow"] == allowed


# Requests of agents.


@pytest.mark.parametrize(
    ("call", "sent", "words"),
    named(
        {
            "no status": ("status", {}, "status: is required"),
            "unknown status": (
                "status",
                {"status": "SLEEPING"},
                "status: should be 'JOINING_CALL'",
            ),
            "not an agent's": ("status", {"status": "CANCELLED"}, "status: should be"),
            "nor LEAVING": ("status", {"status": "LEAVING"}, "status: should be"),
            "long reason": (
                "status",
                {"status": "FAILED", "failureReason": "x" * 2001},
                "failureReason: should have at most 2000",
            ),
            "reason of a number": ("status", {"status": "FAILED", "failureReason": 5}, "failureR"),
            "events missing": ("events", {}, "events: is required"),
            "events no list": ("events", {"events": {}}, "events: should be a JSON array"),
            "101 events": ("events", {"events": [{"kind": "a"}] * 101}, "at most 100"),
            "8 KiB and one": (
                "events",
                {"events": [{"kind": "a", "data": {"a": "x" * (8 * 1024 - 7)}}]},
                "events.0.data: should be at most 8192 bytes of JSON; it has 8193",
            ),
            "kind of spaces": ("events", {"events": [{"kind": "a b"}]}, "events.0.kind: should be"),
            "data no object": ("events", {"events": [{"kind": "a", "data": []}]}, "events.0.data"),
            "one bad of two": (
                "events",
                {"events": [{"kind": "good"}, {"kind": ""}]},
                "events.1.kind: should have at least 1",
            ),
        }
    ),
)
async def test_invalid_agent_report_is_rejected(api: Api, call: str, sent: Any, words: str) -> None:
    path = f"/v1/agent/bots/{RUNNING}/{call}"
    answer = await api.client.post(path, json=sent, headers=api.agent(RUNNING))
    assert_problem(answer, 422, words)


@pytest.mark.parametrize(
    "query", ["", "containerId=", f"containerId={'x' * 256}"], ids=["none", "empty", "256"]
)
async def test_agent_without_a_container_id_is_rejected(api: Api, query: str) -> None:
    answer = await api.client.get(f"/v1/agent/slot?{query}", headers=api.agent(RUNNING))
    assert_problem(answer, 422, "containerId: ")
