"""Meeboter's interface: real exchanges of its bots, replayed byte by byte, and bad input."""

import json
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.support.http_server import Api, api_over, unchanged
from tests.support.replicas import Stage, pool

SAMPLES = [
    json.loads(line)
    for line in Path(__file__).with_name("meeboter_samples.jsonl").read_text().splitlines()
]
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
BOT_DATA = {"userId": "u1", "logLevel": "TRACE"}


@pytest.fixture
async def api(stage: Stage) -> AsyncIterator[Api]:
    async with api_over(stage, pool(1)) as api:
        yield api


def token(api: Api, bot_id: int) -> str:
    return api.agent(bot_id)["Authorization"].removeprefix("Bearer ")


async def call(
    api: Api, bot_id: int, path: str, sent: Any = None, meta: Any = None, **changes: Any
) -> httpx.Response:
    """Send one call as the tRPC client does."""
    envelope = {"json": sent} if meta is None else {"json": sent, "meta": {"values": meta, "v": 1}}
    text = json.dumps(changes.get("batch", {"0": envelope}), separators=(",", ":"))
    headers = {"x-milo-token": changes.get("token", token(api, bot_id))}
    if path.split(",")[0].endswith(("getConfig", "getSlot", "dequeueMessage")):
        return await api.client.get(
            f"/api/trpc/{path}?batch=1&input={quote(text)}", headers=headers
        )
    headers["content-type"] = "application/json"
    content = changes.get("content", text)
    return await api.client.post(f"/api/trpc/{path}?batch=1", content=content, headers=headers)


async def result(api: Api, bot_id: int, path: str, sent: Any) -> Any:
    answer = await call(api, bot_id, path, sent)
    assert answer.status_code == 200, answer.text
    return answer.json()[0]["result"]["data"]["json"]


def error_of(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """Check that tRPC's client finds this error in the answer."""
    assert answer.status_code == status, answer.text[:500]
    assert answer.headers["content-type"] == "application/json"
    found = answer.json()
    error: dict[str, Any] = (found[0] if isinstance(found, list) else found)["error"]["json"]
    assert error["data"]["code"] == code
    assert error["data"]["httpStatus"] == status
    assert error["message"]
    return error


async def set_stage(api: Api, sample: Mapping[str, Any]) -> dict[str, Any]:
    """Create the bot as the recorded server had it when it answered the sample."""
    url, answer = sample["request"]["url"], sample["response"]["body"]
    if "412" in url:
        api.stage.rows("SELECT setval('bots_id_seq', 411)")
    bot = await api.running(botData=BOT_DATA)
    if "412" in url:
        await api.report(bot["id"], "DONE")
        await api.stage.settle(api.replica)
    if "hello" in answer:
        await api.report(bot["id"], "IN_CALL")
        command = {"kind": "chat", "data": {"text": "hello"}}
        await api.post(f"/v1/bots/{bot['id']}/commands", command)
    if '"shouldLeave":true' in answer:
        await api.delete(f"/v1/bots/{bot['id']}")
    return bot


def comparable(text: str) -> str:
    """The answer without what differs by design: times, and the code in the message of a 412."""
    return TIME.sub("<time>", text).replace("PRECONDITION_FAILED: ", "")


@pytest.mark.parametrize("number", range(len(SAMPLES)))
async def test_recorded_exchange_gets_the_recorded_answer(api: Api, number: int) -> None:
    sample = SAMPLES[number]
    bot = await set_stage(api, sample)
    request, recorded = sample["request"], sample["response"]
    answer = await api.client.request(
        request["method"],
        request["url"].replace("abc123", bot["containerId"]),
        content=request["body"],
        headers={
            "x-milo-token": token(api, bot["id"]),
            "content-type": request["headers"].get("content-type", ""),
        },
    )
    assert comparable(answer.text) == comparable(recorded["body"])
    assert answer.status_code == recorded["status"]
    for name, value in recorded["headers"].items():
        assert answer.headers[name] == value


async def test_config_takes_its_times_from_the_assignment(api: Api) -> None:
    bot = await api.running(
        platform="google-meet",
        meetingUrl="https://teams.microsoft.com/l/meetup-join/1",
        botData={
            "automaticLeave": {"waitingRoomTimeout": 5, "everyoneLeftTimeout": "no", "more": 1},
            "recordingEnabled": True,
            "meeting": {"meetingUrl": "https://other.example", "passcode": "1"},
        },
    )
    config = await result(api, bot["id"], "bots.getConfig", {"botId": bot["id"]})
    assert config["startTime"][:23] == bot["assignedAt"][:23]
    assert config["recordingEnabled"] is True
    assert config["automaticLeave"]["waitingRoomTimeout"] == 5
    assert config["automaticLeave"]["everyoneLeftTimeout"] == 60_000
    assert config["meeting"] == {
        "meetingUrl": "https://teams.microsoft.com/l/meetup-join/1",
        "passcode": "1",
        "platform": "microsoft-teams",
    }


async def test_reason_of_a_failure_comes_from_the_event_before_it(api: Api) -> None:
    bot = await api.running()
    event = {"eventType": "FATAL", "eventTime": "2026-08-22T10:00:01.234Z"}
    data = {"description": "The host refused the bot.", "sub_code": None}
    sent = {"id": "1", "event": event | {"data": data}}
    await result(api, bot["id"], "bots.events.report", sent)
    assert (await api.bot(bot["id"]))["status"] == "JOINING_CALL"
    answer = await result(api, bot["id"], "bots.updateStatus", {"id": "1", "status": "FATAL"})
    assert answer["status"] == "FATAL"
    failed = await api.bot(bot["id"])
    assert (failed["status"], failed["failureCode"]) == ("FAILED", "meeting_failed")
    assert failed["failureReason"] == "The host refused the bot."


async def test_bot_that_joins_again_after_a_restart_stays_in_its_status(api: Api) -> None:
    bot = await api.running()
    for status in ("JOINING_CALL", "IN_CALL", "JOINING_CALL", "IN_CALL"):
        await result(api, bot["id"], "bots.updateStatus", {"id": "1", "status": status})
    assert (await api.bot(bot["id"]))["status"] == "IN_CALL"


async def test_recording_and_speakers_are_kept_with_the_bot(api: Api) -> None:
    bot = await api.running()
    await result(api, bot["id"], "bots.updateStatus", {"id": "1", "status": "IN_CALL"})
    speakers = [{"start": n, "end": n + 1, "speakerName": "Ada"} for n in range(120)]
    done = {
        "id": "1",
        "status": "DONE",
        "recording": "bots/1/recordings/x.mp4",
        "speakerTimeframes": speakers,
    }
    await result(api, bot["id"], "bots.updateStatus", done)
    assert (await api.bot(bot["id"]))["status"] == "DONE"
    (artifact,) = (await api.get("/v1/bots/1/artifacts")).json()["artifacts"]
    assert (artifact["kind"], artifact["location"]) == ("recording", "bots/1/recordings/x.mp4")
    events = (await api.get("/v1/bots/1/events", limit=500)).json()["events"]
    kept = [each["data"]["timeframes"] for each in events if "timeframes" in (each["data"] or {})]
    assert [frame for part in kept for frame in part] == speakers


async def test_chat_is_handed_out_once_and_only_during_the_call(api: Api) -> None:
    bot = await api.running()
    for text in ("a", "b"):
        await api.post("/v1/bots/1/commands", {"kind": "chat", "data": {"text": text}})
    await api.post("/v1/bots/1/commands", {"kind": "other"})
    assert await result(api, bot["id"], "bots.chat.dequeueMessage", {"botId": "1"}) is None
    await api.report(bot["id"], "IN_CALL")
    found = [
        await result(api, bot["id"], "bots.chat.dequeueMessage", {"botId": "1"}) for _ in range(3)
    ]
    assert [each and each["messageText"] for each in found] == ["a", "b", None]
    commands = (await api.get("/v1/bots/1/commands")).json()["commands"]
    assert [each["state"] for each in commands] == ["acknowledged", "acknowledged", "waiting"]


async def test_errors_of_the_log_become_events(api: Api) -> None:
    bot = await api.running()
    entries = [{"level": "INFO", "message": "hi"}, {"level": "ERROR", "message": "no camera"}]
    sent = {"botId": "1", "entries": entries}
    assert await result(api, bot["id"], "bots.logs.stream", sent) == {"received": 2}
    events = (await api.get("/v1/bots/1/events")).json()["events"]
    logged = [each["data"]["message"] for each in events if each["kind"] == "agent.log"]
    assert logged == ["no camera"]
    assert (await api.bot(bot["id"]))["lastHeartbeatAt"] is not None


def form(content: bytes, **fields: str) -> dict[str, Any]:
    return {"files": {"file": ("s.png", content, "image/png")}, "data": fields}


async def upload(api: Api, bot_id: int, request: Mapping[str, Any], **headers: str) -> Any:
    path = f"/api/bots/{bot_id}/screenshots"
    headers = {"x-milo-token": token(api, 1)} | headers
    return await api.client.post(path, headers=headers, **request)


async def test_screenshot_of_a_form_is_kept(api: Api) -> None:
    await api.running()
    sent = form(PNG, type="error", state="IN_CALL", trigger="fatal")
    answer = await upload(api, 1, sent)
    assert answer.status_code == 201, answer.text
    body = answer.json()
    assert TIME.fullmatch(body.pop("capturedAt"))
    assert body == {"key": "bots/1/screenshots/1", "type": "error", "state": "IN_CALL"}
    assert (await api.get("/v1/bots/1/screenshots/1")).content == PNG
    (shown,) = (await api.get("/v1/bots/1/screenshots")).json()["screenshots"]
    assert shown["note"] == "error IN_CALL fatal"


async def test_wrong_screenshots_are_refused(api: Api) -> None:
    await api.running()
    await api.create()
    with unchanged(api.stage.url):
        refused = [
            await upload(api, 1, form(b"<svg/>")),
            await upload(api, 1, {"content": b"x"}),
            await upload(api, 1, form(PNG + bytes(600_000))),
            await upload(api, 2, form(PNG)),
            await upload(api, 1, form(PNG), **{"x-milo-token": "bpa.1.deadbeef"}),
        ]
    assert [each.status_code for each in refused] == [400, 400, 413, 404, 401]


async def test_released_container_is_instructed_to_exit(api: Api) -> None:
    bot = await api.running()
    former = token(api, bot["id"])
    await api.report(bot["id"], "DONE")
    await api.stage.settle(api.replica)
    other = await api.running()
    with unchanged(api.stage.url):
        for path, sent in (
            ("bots.getConfig", {"botId": bot["id"]}),
            ("infrastructure.coolify.pool.getSlot", {"poolSlotUuid": bot["containerId"]}),
            ("bots.chat.dequeueMessage", {"botId": str(bot["id"])}),
        ):
            answer = await call(api, bot["id"], path, sent, token=former)
            error = error_of(answer, 412, "PRECONDITION_FAILED")
            assert "PRECONDITION_FAILED" in error["message"]
        heartbeat = {"id": str(bot["id"])}
        answer = await call(api, bot["id"], "bots.sendHeartbeat", heartbeat, token=former)
        assert answer.json()[0]["result"]["data"]["json"]["shouldLeave"] is True
        late = {"id": str(bot["id"]), "status": "FATAL"}
        assert (await call(api, bot["id"], "bots.updateStatus", late, token=former)).is_success
    assert (await api.bot(other["id"]))["status"] == "JOINING_CALL"


async def test_bot_that_was_asked_to_leave_has_time_to_save_its_recording(api: Api) -> None:
    bot = await api.running()
    await result(api, bot["id"], "bots.updateStatus", {"id": "1", "status": "IN_CALL"})
    await api.delete("/v1/bots/1")
    assert (await result(api, bot["id"], "bots.sendHeartbeat", {"id": "1"}))["shouldLeave"]
    await result(api, bot["id"], "bots.updateStatus", {"id": "1", "status": "DONE"})
    assert (await api.bot(1))["status"] == "DONE"


DEEP = '{"0":' + '{"json":' * 5000 + "1" + "}" * 5001


@pytest.mark.parametrize(
    ("path", "changes", "status", "code"),
    [
        ("bots.sendHeartbeat", {"token": "bpa.1.deadbeef"}, 401, "UNAUTHORIZED"),
        ("bots.sendHeartbeat", {"token": ""}, 401, "UNAUTHORIZED"),
        ("bots.sendHeartbeat", {"content": "x" * 10_000_000}, 413, "PAYLOAD_TOO_LARGE"),
        ("bots.sendHeartbeat", {"content": "{"}, 400, "PARSE_ERROR"),
        ("bots.sendHeartbeat", {"content": b"\xff\xfe"}, 400, "PARSE_ERROR"),
        ("bots.sendHeartbeat", {"content": DEEP}, 400, "PARSE_ERROR"),
        ("bots.sendHeartbeat", {"batch": {"1": {"json": {"id": "1"}}}}, 400, "BAD_REQUEST"),
        ("bots.sendHeartbeat", {"batch": []}, 400, "BAD_REQUEST"),
        ("bots.sendHeartbeat", {"batch": {}}, 400, "BAD_REQUEST"),
        ("bots.sendHeartbeat", {"batch": {"0": {"id": "1"}}}, 400, "BAD_REQUEST"),
        ("bots.sendHeartbeat", {"sent": {"id": "one"}}, 400, "BAD_REQUEST"),
        ("bots.sendHeartbeat", {"sent": {"id": "1"}, "meta": {"id": ["Date"]}}, 400, "BAD_REQUEST"),
        ("bots.sendHeartbeat", {"sent": {"id": "1"}, "meta": {"x": ["Date"]}}, 400, "BAD_REQUEST"),
        ("bots.sendHeartbeat", {"sent": {"id": "1"}, "meta": "x"}, 400, "BAD_REQUEST"),
        ("bots.sendHeartbeat", {"sent": {"id": "2"}}, 404, "NOT_FOUND"),
        ("bots.updateStatus", {"sent": {"id": "1", "status": "HAPPY"}}, 400, "BAD_REQUEST"),
        ("bots.updateStatus", {"sent": {"id": "2", "status": "DONE"}}, 404, "NOT_FOUND"),
        ("bots.updateStatus", {"sent": {"id": "2", "status": "LEAVING"}}, 404, "NOT_FOUND"),
        ("bots.events.report", {"sent": {"id": "1", "event": None}}, 400, "BAD_REQUEST"),
        ("bots.events.report", {"sent": {"id": 2, "event": {"eventType": "X"}}}, 404, "NOT_FOUND"),
        ("bots.logs.stream", {"sent": {"botId": "1", "entries": [1]}}, 400, "BAD_REQUEST"),
        ("bots.getConfig", {"sent": {"botId": 2}}, 404, "NOT_FOUND"),
        ("infrastructure.coolify.pool.getSlot", {"sent": {"poolSlotUuid": "x"}}, 404, "NOT_FOUND"),
        ("bots.delete", {"sent": {"id": "1"}}, 404, "NOT_FOUND"),
    ],
)
async def test_bad_call_gets_its_error_and_changes_nothing(
    api: Api, path: str, changes: dict[str, Any], status: int, code: str
) -> None:
    bot = await api.running()
    await api.create()
    with unchanged(api.stage.url):
        answer = await call(api, bot["id"], path, **changes)
    error_of(answer, status, code)


async def test_query_by_post_is_refused(api: Api) -> None:
    await api.running()
    headers = {"x-milo-token": token(api, 1), "content-type": "application/json"}
    body = {"0": {"json": {"botId": 1}}}
    path = "/api/trpc/bots.getConfig?batch=1"
    error_of(await api.client.post(path, json=body, headers=headers), 405, "METHOD_NOT_SUPPORTED")


async def test_bad_call_of_a_batch_leaves_the_others_alone(api: Api) -> None:
    bot = await api.running()
    batch = {
        "0": {"json": {"id": "1", "status": "IN_CALL"}},
        "1": {"json": {"id": "1", "status": 5}},
        "2": {"json": {"id": "1"}, "meta": {"values": {"id": "Date"}}},
    }
    path = "bots.updateStatus,bots.updateStatus,bots.sendHeartbeat"
    answer = await call(api, bot["id"], path, batch=batch)
    assert answer.status_code == 207
    assert ["error" in each for each in answer.json()] == [False, True, True]
    assert (await api.bot(1))["status"] == "IN_CALL"


async def test_event_that_cannot_be_stored_is_cut(api: Api) -> None:
    bot = await api.running()
    for description in ("x" * 100_000, "nul \x00 nul", "half \ud800"):
        data = {"description": description}
        sent = {"id": "1", "event": {"eventType": "FATAL", "eventTime": None, "data": data}}
        await result(api, bot["id"], "bots.events.report", sent)
    events = (await api.get("/v1/bots/1/events")).json()["events"]
    kept = [each["data"] for each in events if each["kind"] == "agent.fatal"]
    assert [each["isCut"] for each in kept] == [True, True, True]
    assert len(kept[0]["description"]) == 1000
