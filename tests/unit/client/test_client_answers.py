"""The client of users' code, against answers that are written down."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
import stamina

import botpool
from botpool import client as module
from botpool.client import Bot, Change, Client, Reset
from botpool.client.records import read

AT = "2026-01-05T10:00:00.120000Z"
BOT: dict[str, Any] = {
    "id": 7, "correlationId": "c", "platform": "google-meet", "meetingUrl": "https://x/?pwd=hunter2",
    "botDisplayName": "Scribe", "status": "DEPLOYING", "priority": 100, "slotName": None,
    "containerId": None, "attempts": 1, "failureReason": None, "failureCode": None,
    "createdAt": AT, "queuedAt": None, "assignedAt": None, "startedAt": None,
    "lastHeartbeatAt": None, "endedAt": None, "aFieldOfLater": {},
}  # fmt: skip
Answers = Callable[[httpx.Request], httpx.Response]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is waited for."""
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


def test_a_bot_is_made_once_however_often_it_is_sent() -> None:
    sent: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request)
        if len(sent) < 3:
            raise httpx.ReadError("reset")
        return httpx.Response(201, json={"bot": BOT, "queuePosition": 3, "estimatedWaitMs": 40})

    with connected(answer) as client:
        made = client.create("https://x", display_name="Scribe", bot_data={"a": 1}, priority=5)
    assert len({request.headers["idempotency-key"] for request in sent}) == 1
    assert len(sent) == 3
    assert json.loads(sent[0].content) == {
        "meetingUrl": "https://x", "botDisplayName": "Scribe", "botData": {"a": 1}, "priority": 5,
    }  # fmt: skip
    assert sent[0].headers["authorization"] == "Bearer bpk_key"
    assert (made.id, made.queue_position, made.estimated_wait_ms) == (7, 3, 40)
    assert made.created_at.isoformat() == "2026-01-05T10:00:00.120000+00:00"
    assert "hunter2" not in repr(made)


def test_what_the_server_refuses_has_its_kind() -> None:
    wrong = {"errors": [{"field": "platform", "message": "is unknown"}]}
    for answer, kind in (
        (problem(401), module.Unauthorized),
        (problem(403), module.Forbidden),
        (problem(404), module.NotFound),
        (problem(409), module.Conflict),
        (problem(500), module.Refused),
        (httpx.Response(502, html="<html>"), module.Refused),
        (httpx.Response(200, json=[]), module.Refused),
        (httpx.Response(200, html="<html>"), module.Refused),
    ):
        with pytest.raises(kind) as refused:
            connected(in_turn(answer)).get(7)
        assert type(refused.value) is kind
        assert "bpk_key" not in str(refused.value)
    with pytest.raises(module.NotValid) as invalid:
        connected(in_turn(problem(422, **wrong))).create("x")
    assert invalid.value.fields == {"platform": "is unknown"}
    with pytest.raises(module.Unavailable) as unavailable:
        connected(in_turn(problem(503))).get(7)
    assert unavailable.value.retry_after_s == 7
    with pytest.raises(module.Unreachable, match=r"botpool\.test does not answer: refused"):
        connected(in_turn(*[httpx.ConnectError("refused")] * 4)).get(7)


def test_waiting() -> None:
    steps = ("QUEUED", "DEPLOYING", "JOINING_CALL", "IN_CALL")
    seen: list[str] = []
    client = connected(in_turn(*(bot(status=step) for step in steps)))
    assert client.wait(7, {"IN_CALL"}, on_look=lambda each: seen.append(each.status)).id == 7
    assert seen == [*steps]
    ended = bot(status="FAILED", failureCode="deploy_failed", failureReason="no image")
    with pytest.raises(module.BotEnded, match=r"ended FAILED \(deploy_failed: no image\)"):
        connected(in_turn(bot(), ended)).wait(7, {"IN_CALL"})
    assert connected(in_turn(bot(), problem(503), bot(status="DONE"))).wait(7).is_final
    with pytest.raises(TimeoutError, match="still DEPLOYING"):
        connected(in_turn(bot())).wait(7, timeout_s=0)


def test_pages_are_asked_for_as_they_are_needed() -> None:
    asked: list[dict[str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(dict(request.url.params))
        more = "6" if len(asked) == 1 else None
        return httpx.Response(200, json={"bots": [BOT, BOT], "nextCursor": more})

    bots = connected(answer).bots(status="DONE", search="x y")
    assert isinstance(next(bots), Bot)
    assert len(asked) == 1
    assert len(list(bots)) == 3
    assert [each.get("cursor") for each in asked] == [None, "6"]
    assert asked[0] == {"status": "DONE", "search": "x y", "limit": "200"}


CHANGE = {
    "at": AT, "kind": "slot.status", "platform": "zoom", "botId": 7, "slotId": 3,
    "slotName": "pool-zoom-003", "from": "deploying", "to": "busy",
    "reason": "line\u2028separator\x85kept", "correlationId": "c", "data": None,
}  # fmt: skip


def streamed(*parts: str) -> httpx.Response:
    return httpx.Response(200, content=(part.encode() for part in parts))


def test_the_stream_goes_on_where_it_was_lost() -> None:
    asked: list[str | None] = []
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
        asked.append(request.headers.get("last-event-id"))
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
    assert asked == [None, "1-2-5", "1-2-5", "1-2-5", "10-10-0"]
    assert [state is None for state in states] == [True, False, False, False, True, False, True]


def test_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BOTPOOL_API_KEY", raising=False)
    for wrong in (None, "", "a b", "a\n", "é"):
        with pytest.raises(ValueError, match="BOTPOOL_API_KEY"):
            Client("http://botpool.test", wrong)
    monkeypatch.setenv("BOTPOOL_API_KEY", "bpk_of_the_environment")
    Client().close()


def test_it_is_exported_and_costs_nothing_unasked() -> None:
    assert botpool.Client is Client
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = botpool.Nothing  # type: ignore[attr-defined]
