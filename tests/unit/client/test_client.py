"""The Python client against a fake server."""

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

import httpx
import pytest
import stamina

import botpool
from botpool import client as module
from botpool.client import Bot, Change, Client, Reset
from botpool.client.records import read
from tests.support.fake_api import pool_json, slot_json

AT = "2026-01-05T10:00:00.120000Z"
BOT: dict[str, Any] = {
    "id": 7, "correlationId": "c", "platform": "google-meet", "meetingUrl": "https://x/?pwd=hunter2",
    "botDisplayName": "Scribe", "status": "DEPLOYING", "priority": 100, "slotName": None,
    "containerId": None, "attempts": 1, "failureReason": None, "failureCode": None,
    "createdAt": AT, "queuedAt": None, "assignedAt": None, "startedAt": None,
    "lastHeartbeatAt": None, "endedAt": None, "tenant": "default", "createdBy": None,
    "aFieldOfLater": {},
}  # fmt: skip
Answers = Callable[[httpx.Request], httpx.Response]


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("time.sleep", lambda _: None)
    with stamina.set_testing(True, attempts=4):
        yield


def connected(answers: Answers) -> Client:
    return Client("http://botpool.test", "bpk_key", transport=httpx.MockTransport(answers))


def in_turn(*answers: httpx.Response | Exception) -> Answers:
    left = iter(answers)

    def answer(_: httpx.Request) -> httpx.Response:
        following = next(left)
        if isinstance(following, Exception):
            raise following
        return following

    return answer


def bot(**changes: Any) -> httpx.Response:
    return httpx.Response(200, json={"bot": {**BOT, **changes}})


def problem(status: int, **more: Any) -> httpx.Response:
    return httpx.Response(status, json={"detail": "no", **more}, headers={"Retry-After": "7"})


def test_bot_has_its_progress_and_the_time_of_its_last_media() -> None:
    at = "2026-01-05T10:05:00Z"
    body = {"bot": BOT, "progress": {"bytesUploaded": 7}, "lastMediaAt": at}
    with connected(lambda _: httpx.Response(200, json=body)) as client:
        bot = client.get(7)
    assert (bot.progress, bot.last_media_at) == ({"bytesUploaded": 7}, datetime.fromisoformat(at))
    assert hash(bot), "a bot can be a member of a set"


def test_retried_creation_has_one_idempotency_key() -> None:
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        if len(sent) < 3:
            raise httpx.ReadError("reset")
        return httpx.Response(201, json={"bot": BOT, "queuePosition": 3, "estimatedWaitMs": 40})

    with connected(answer) as client:
        bot = client.create("https://x", display_name="Scribe", bot_data={"a": 1}, priority=5)
    assert len({request.headers["idempotency-key"] for request in sent}) == 1
    assert len(sent) == 3
    assert json.loads(sent[0].content) == {
        "meetingUrl": "https://x", "botDisplayName": "Scribe", "botData": {"a": 1}, "priority": 5,
    }  # fmt: skip
    assert sent[0].headers["authorization"] == "Bearer bpk_key"
    assert (bot.id, bot.queue_position, bot.estimated_wait_ms) == (7, 3, 40)
    assert bot.created_at.isoformat() == "2026-01-05T10:00:00.120000+00:00"
    assert "hunter2" not in repr(bot)


def test_each_refusal_has_its_exception() -> None:
    wrong = {"errors": [{"field": "platform", "message": "is unknown"}]}
    for answer, kind in (
        (problem(401), module.Unauthorized),
        (problem(403), module.Forbidden),
        (problem(404), module.NotFound),
        (problem(409), module.Conflict),
        (problem(500), module.Refused),
        (httpx.Response(404, html="<html>"), module.UnexpectedResponse),
        (httpx.Response(200, json=[]), module.UnexpectedResponse),
        (httpx.Response(200, html="<html>"), module.UnexpectedResponse),
        (httpx.Response(200, json={"bot": {"id": 7}}), module.UnexpectedResponse),
        (httpx.Response(502, html="<html>"), module.Unavailable),
    ):
        with pytest.raises(kind) as refused:
            connected(in_turn(answer)).get(7)
        assert type(refused.value) is kind
        assert "bpk_key" not in str(refused.value)
    with pytest.raises(module.NotValid) as invalid:
        connected(in_turn(problem(422, **wrong))).create("x")
    assert invalid.value.fields == {"platform": "is unknown"}
    with pytest.raises(module.Unavailable) as unavailable:
        connected(in_turn(problem(429))).get(7)
    assert unavailable.value.retry_after_s == 7
    with pytest.raises(module.Unavailable) as unavailable:
        connected(in_turn(problem(503))).get(7)
    assert unavailable.value.retry_after_s == 7
    with pytest.raises(module.Unreachable, match=r"botpool\.test does not answer: refused"):
        connected(in_turn(*[httpx.ConnectError("refused")] * 4)).get(7)


def test_wait_returns_at_the_wanted_status_and_raises_at_another_end() -> None:
    steps = ("QUEUED", "DEPLOYING", "JOINING_CALL", "IN_CALL")
    polled: list[str] = []
    client = connected(in_turn(*(bot(status=step) for step in steps)))
    assert client.wait(7, {"IN_CALL"}, on_poll=lambda each: polled.append(each.status)).id == 7
    assert polled == [*steps]
    ended = bot(status="FAILED", failureCode="deploy_failed", failureReason="no image")
    with pytest.raises(module.BotEnded, match=r"ended FAILED \(deploy_failed: no image\)"):
        connected(in_turn(bot(), ended)).wait(7, {"IN_CALL"})
    assert connected(in_turn(bot(), problem(503), bot(status="DONE"))).wait(7).is_final
    with pytest.raises(TimeoutError, match="still DEPLOYING"):
        connected(in_turn(bot())).wait(7, timeout_s=0)


def test_pages_of_bots_are_requested_as_they_are_needed() -> None:
    sent: list[dict[str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(dict(request.url.params))
        more = "6" if len(sent) == 1 else None
        return httpx.Response(200, json={"bots": [BOT, BOT], "nextCursor": more})

    bots = connected(answer).bots(status="DONE", search="x y")
    assert isinstance(next(bots), Bot)
    assert len(sent) == 1
    assert len(list(bots)) == 3
    assert [each.get("cursor") for each in sent] == [None, "6"]
    assert sent[0] == {"status": "DONE", "search": "x y", "limit": "200"}


def test_response_is_the_body_as_the_server_sent_it() -> None:
    content = json.dumps({"pools": [pool_json()], "later": "\u2028"}, indent=2).encode()
    headers = {"date": "Mon, 05 Jan 2026 10:00:00 GMT"}
    client = connected(in_turn(httpx.Response(200, content=content, headers=headers)))
    with pytest.raises(ValueError, match="no call yet"):
        _ = client.response
    (pool,) = client.pools()
    assert (pool.platform, pool.slots_with_bot, pool.backend_health.ok) == ("google-meet", 90, True)
    assert (client.response.content, client.response.status) == (content, 200)
    assert client.response.server_time.isoformat() == "2026-01-05T10:00:00+00:00"


SLOT = slot_json(id=3)
POOL = pool_json()
OPERATOR_CALLS: list[tuple[Callable[[Client], Any], str, Any]] = [
    (
        lambda c: list(c.queue(platform="zoom")),
        "GET /v1/queue?platform=zoom&limit=200",
        {"queue": []},
    ),
    (
        lambda c: list(c.slots(status="error")),
        "GET /v1/slots?status=error&limit=200",
        {"slots": [SLOT]},
    ),
    (
        lambda c: list(c.slots(container_id="a b")),
        "GET /v1/slots?containerId=a+b&limit=200",
        {"slots": [SLOT]},
    ),
    (lambda c: list(c.slots(bot_id=7)), "GET /v1/slots?botId=7&limit=200", {"slots": [SLOT]}),
    (
        lambda c: list(c.bots(container_id="abc", slot_name="pool-zoom-001")),
        "GET /v1/bots?containerId=abc&slotName=pool-zoom-001&limit=200",
        {"bots": []},
    ),
    (lambda c: c.slot(3), "GET /v1/slots/3", {"slot": SLOT}),
    (lambda c: list(c.slot_history(3)), "GET /v1/slots/3/history?limit=200", {"events": []}),
    (lambda c: c.cordon_slot(3), "POST /v1/slots/3/cordon", {"slot": SLOT}),
    (lambda c: c.uncordon_slot(3), "POST /v1/slots/3/uncordon", {"slot": SLOT}),
    (lambda c: c.release_slot(3), "POST /v1/slots/3/release", {"slot": SLOT}),
    (lambda c: c.recover_slot(3), "POST /v1/slots/3/recover", {"slot": SLOT}),
    (lambda c: c.delete_slot(3), "DELETE /v1/slots/3", {"slot": SLOT}),
    (lambda c: c.delete_slot(3, force=True), "DELETE /v1/slots/3?force=true", {"slot": SLOT}),
    (lambda c: c.pools(), "GET /v1/pools", {"pools": [POOL]}),
    (lambda c: c.pool("zoom"), "GET /v1/pools/zoom", {"pool": POOL}),
    (lambda c: c.drain_pool("zoom"), "POST /v1/pools/zoom/drain", {"pool": POOL}),
    (lambda c: c.undrain_pool("zoom"), "POST /v1/pools/zoom/undrain", {"pool": POOL}),
    (
        lambda c: c.recover(),
        "POST /v1/maintenance/recover",
        {"recovered": 1, "requeued": 0, "failed": 0, "deleted": 0, "skipped": 0},
    ),
]


@pytest.mark.parametrize(("call", "request_line", "body"), OPERATOR_CALLS)
def test_operator_call_sends_its_request(
    call: Callable[[Client], Any], request_line: str, body: Any
) -> None:
    sent: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(f"{request.method} {request.url.raw_path.decode()}")
        return httpx.Response(200, json=body)

    assert call(connected(answer)) is not None
    assert sent == [request_line]


def test_lost_response_to_a_release_is_not_retried() -> None:
    """The slot may have its next bot by then."""
    lost = [httpx.ReadError("reset"), httpx.Response(200, json={"slot": SLOT})]
    with pytest.raises(module.ResponseLost):
        connected(in_turn(*lost)).release_slot(3)
    not_sent = [httpx.ConnectError("refused"), httpx.Response(200, json={"slot": SLOT})]
    assert connected(in_turn(*not_sent)).release_slot(3).id == 3


CHANGE = {
    "at": AT, "kind": "slot.status", "platform": "zoom", "botId": 7, "slotId": 3,
    "slotName": "pool-zoom-003", "from": "deploying", "to": "busy",
    "reason": "line\u2028separator\x85kept", "correlationId": "c", "data": None,
}  # fmt: skip


def streamed(*parts: str) -> httpx.Response:
    return httpx.Response(200, content=(part.encode() for part in parts))


def test_stream_continues_where_its_connection_failed() -> None:
    sent: list[str | None] = []
    states: list[str | None] = []
    event = f"event: change\ndata: {json.dumps(CHANGE, ensure_ascii=False)}\n\n"
    answers = iter(
        [
            streamed("retry: 1000\nid: 1-1-0\n\n", "id: 1-2-5\nev", event[2:], ": alive\n\n"),
            httpx.ConnectError("refused"),
            problem(503),
            streamed("id: 9-9-0\nevent: reset\n", 'data: {"reason": "old"}\n\n', "id: 10-10-0\n\n"),
            streamed('event: denied\ndata: {"reason": "revoked"}\n\n'),
        ]
    )

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.headers.get("last-event-id"))
        following = next(answers)
        if isinstance(following, Exception):
            raise following
        return following

    changes = connected(answer).changes(on_state=states.append)
    first, second = next(changes), next(changes)
    assert first == read(Change, CHANGE, cursor="1-2-5")
    assert isinstance(first, Change)
    assert (first.from_state, first.to_state, first.bot_id) == ("deploying", "busy", 7)
    assert "\u2028" in first.reason
    assert second == Reset(cursor="9-9-0", reason="old")
    with pytest.raises(module.Unauthorized, match="revoked"):
        next(changes)
    assert sent == [None, "1-2-5", "1-2-5", "1-2-5", "10-10-0"]
    assert [state is None for state in states] == [True, False, False, False, True, False, True]


@pytest.mark.parametrize("data", ["{", "[]", '{"at": null}'])
def test_malformed_event_of_the_stream_is_a_client_error(data: str) -> None:
    event = streamed(f"id: 1-1-0\nevent: change\ndata: {data}\n\n")
    with pytest.raises(module.UnexpectedResponse, match="an event without"):
        next(connected(in_turn(event)).changes())


def test_client_needs_a_valid_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BOTPOOL_API_KEY", raising=False)
    for wrong in (None, "", "a b", "a\n", "é"):
        with pytest.raises(ValueError, match="BOTPOOL_API_KEY"):
            Client("http://botpool.test", wrong)
    monkeypatch.setenv("BOTPOOL_API_KEY", "bpk_of_the_environment")
    Client().close()


def test_client_is_exported_by_the_package() -> None:
    assert botpool.Client is Client
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = botpool.Nothing  # type: ignore[attr-defined]
