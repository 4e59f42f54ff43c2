"""The users' part of the contract, row by row, as a client written against it sees it."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest
from http_server import LINK, Api, api_over, assert_problem, contents, unchanged

from replicas import TEAMS, Stage, pool

BOT_FIELDS = [
    "id",
    "correlationId",
    "platform",
    "meetingUrl",
    "botDisplayName",
    "status",
    "priority",
    "slotName",
    "containerId",
    "attempts",
    "failureReason",
    "failureCode",
    "createdAt",
    "queuedAt",
    "assignedAt",
    "startedAt",
    "lastHeartbeatAt",
    "endedAt",
]
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


@pytest.fixture
async def api(stage: Stage) -> AsyncIterator[Api]:
    """Two slots for Google Meet, none for Teams: whoever goes there waits."""
    async with api_over(stage, pool(2), pool(0, TEAMS)) as api:
        yield api


async def events_of(api: Api, bot_id: int) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = (await api.get(f"/v1/bots/{bot_id}/events")).json()["events"]
    return events


async def ids(api: Api, **query: Any) -> list[int]:
    return [bot["id"] for bot in (await api.get("/v1/bots", **query)).json()["bots"]]


# POST /v1/bots


async def test_the_answer_to_a_request(api: Api) -> None:
    answer = await api.post("/v1/bots", {"meetingUrl": LINK})
    assert answer.status_code == 201
    assert set(answer.json()) == {"bot"}
    bot = answer.json()["bot"]
    assert list(bot) == BOT_FIELDS
    assert bot == bot | {
        "platform": "google-meet",
        "meetingUrl": LINK,
        "botDisplayName": "Botpool",
        "status": "DEPLOYING",
        "priority": 100,
        "slotName": "pool-google-meet-001",
        "attempts": 1,
        "failureReason": None,
        "failureCode": None,
        "startedAt": None,
        "lastHeartbeatAt": None,
        "endedAt": None,
    }
    for moment in (bot["createdAt"], bot["assignedAt"]):
        assert TIME.fullmatch(moment)
        datetime.fromisoformat(moment)
    assert answer.headers["X-Correlation-ID"] == bot["correlationId"]
    assert (await api.get(f"/v1/bots/{bot['id']}")).json() == answer.json()


async def test_the_reply_does_not_wait_for_the_platform(api: Api) -> None:
    await api.create()
    assert api.stage.backend.calls == []
    (slot,) = (await api.client.get("/v1/slots", headers=api.operator)).json()["slots"]
    assert (slot["status"], slot["phase"]) == ("deploying", "creating")


async def test_an_answer_while_queued(api: Api) -> None:
    measured = await api.running()
    api.stage.clock.move(600)
    await api.report(measured["id"], "DONE")
    await api.stage.settle(api.replica)
    for _ in range(2):
        await api.create()
    first, second = [await api.create() for _ in range(2)]
    assert (first["queuePosition"], second["queuePosition"]) == (1, 2)
    assert 0 < first["estimatedWaitMs"] < second["estimatedWaitMs"]
    assert second["bot"] == second["bot"] | {
        "status": "QUEUED",
        "slotName": None,
        "containerId": None,
        "assignedAt": None,
        "attempts": 0,
    }
    assert TIME.fullmatch(second["bot"]["queuedAt"])
    shown = (await api.get(f"/v1/bots/{second['bot']['id']}")).json()
    assert set(shown) == {"bot", "queuePosition", "estimatedWaitMs"}
    cancelled = (await api.delete(f"/v1/bots/{second['bot']['id']}")).json()
    assert set(cancelled) == {"bot"}


async def test_what_was_never_measured_is_not_estimated(api: Api) -> None:
    assert set(await api.create(platform="teams")) == {"bot", "queuePosition"}


async def test_the_largest_of_everything_is_taken(api: Api) -> None:
    data = {"a": "x" * (64 * 1024 - len('{"a":""}'))}
    created = await api.create(
        meetingUrl=LINK.ljust(2048, "x"),
        botDisplayName="ü" * 100,
        queueTimeoutMs=600_000,
        priority=2**31 - 1,
        botData=data,
    )
    await api.stage.settle(api.replica)
    bot = await api.bot(created["bot"]["id"])
    told = await api.client.get(
        "/v1/agent/slot",
        params={"containerId": bot["containerId"]},
        headers=api.agent(bot["id"]),
    )
    assert told.json()["botData"] == data


async def test_data_comes_back_as_it_was_sent(api: Api) -> None:
    nested: Any = "end"
    for _ in range(63):
        nested = [nested]
    sent = {"text": "\\u0000 ü \U0001f916 \n", "n": [10**30, -0.5, 1e300, True, None], "": nested}
    bot = await api.running(botData=sent)
    told = await api.client.get(
        "/v1/agent/slot", params={"containerId": bot["containerId"]}, headers=api.agent(bot["id"])
    )
    assert told.json()["botData"] == sent


@pytest.mark.parametrize(
    ("link", "platform"),
    [
        ("https://meet.google.com/abc-defg-hij", "google-meet"),
        ("HTTPS://Meet.Google.com/abc", "google-meet"),
        ("https://teams.microsoft.com/l/meetup-join/x", "teams"),
        ("https://teams.live.com/meet/1", "teams"),
    ],
)
async def test_the_platform_is_read_from_the_link(api: Api, link: str, platform: str) -> None:
    assert (await api.create(meetingUrl=link))["bot"]["platform"] == platform


async def test_a_named_platform_wins_over_the_link(api: Api) -> None:
    created = await api.create(meetingUrl="https://example.org/room", platform="teams")
    assert created["bot"]["platform"] == "teams"


async def test_lower_priority_goes_first(api: Api) -> None:
    late = await api.create(platform="teams", priority=101)
    usual = await api.create(platform="teams")
    urgent = await api.create(platform="teams", priority=-5)
    assert urgent["queuePosition"] == 1
    await api.replica.pools.configure([pool(1, TEAMS)])
    positions = {
        entry["botId"]: entry["position"] for entry in (await api.get("/v1/queue")).json()["queue"]
    }
    assert positions == {usual["bot"]["id"]: 1, late["bot"]["id"]: 2}
    assert (await api.bot(urgent["bot"]["id"]))["status"] == "DEPLOYING"


async def test_who_does_not_queue_is_refused_and_not_recorded(api: Api) -> None:
    with unchanged(api.stage.url):
        answer = await api.post(
            "/v1/bots", {"meetingUrl": LINK, "platform": "teams", "queueTimeoutMs": 0}
        )
    assert_problem(answer, 503, "No slot of pool teams")
    assert int(answer.headers["retry-after"]) > 0
    taken = await api.create(queueTimeoutMs=0)
    assert taken["bot"]["status"] == "DEPLOYING"


async def test_a_drained_pool_refuses_with_the_reason(api: Api) -> None:
    await api.client.post("/v1/pools/google-meet/drain", headers=api.operator)
    with unchanged(api.stage.url):
        answer = await api.post("/v1/bots", {"meetingUrl": LINK})
    assert_problem(answer, 503, "Pool google-meet is drained")
    assert int(answer.headers["retry-after"]) > 0


async def test_a_request_that_comes_again(api: Api) -> None:
    mark = {"Idempotency-Key": "order-66"}
    sent = {"meetingUrl": LINK, "botData": {"a": 1, "b": 2}}
    first = await api.post("/v1/bots", sent, **mark)
    await api.stage.settle(api.replica)
    # The same by its contents: defaults written out, members in another order.
    again = await api.post(
        "/v1/bots", {"botData": {"b": 2, "a": 1}, "priority": 100, "meetingUrl": LINK}, **mark
    )
    assert (first.status_code, again.status_code) == (201, 200)
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.json()["bot"]["id"] == first.json()["bot"]["id"]
    assert again.json()["bot"]["status"] == "JOINING_CALL", "the bot as it is now"
    with unchanged(api.stage.url):
        other = await api.post("/v1/bots", {**sent, "priority": 1}, **mark)
    assert_problem(other, 409, "Idempotency-Key was used for another request")


async def test_a_request_that_comes_again_while_the_first_is_under_way(api: Api) -> None:
    sent = [
        api.post("/v1/bots", {"meetingUrl": LINK}, **{"Idempotency-Key": "k"}) for _ in range(8)
    ]
    answers = await asyncio.gather(*sent)
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
    assert len(await ids(api)) == 1


async def test_an_idempotency_key_belongs_to_its_api_key(api: Api) -> None:
    mark = {"Idempotency-Key": "k"}
    first = await api.post("/v1/bots", {"meetingUrl": LINK}, **mark)
    second = await api.client.post("/v1/bots", json={"meetingUrl": LINK}, headers=api.admin | mark)
    assert second.status_code == 201
    assert second.json()["bot"]["id"] != first.json()["bot"]["id"]


async def test_a_refusal_leaves_its_key_free(api: Api) -> None:
    mark = {"Idempotency-Key": "k"}
    sent = {"meetingUrl": LINK, "platform": "teams", "queueTimeoutMs": 0}
    assert (await api.post("/v1/bots", sent, **mark)).status_code == 503
    await api.replica.pools.configure([pool(1, TEAMS)])
    assert (await api.post("/v1/bots", sent, **mark)).status_code == 201


async def test_the_callers_correlation_id_is_taken(api: Api) -> None:
    answer = await api.post("/v1/bots", {"meetingUrl": LINK}, **{"X-Correlation-ID": "call-7/a"})
    assert answer.json()["bot"]["correlationId"] == "call-7/a"
    assert answer.headers["X-Correlation-ID"] == "call-7/a"
    kept = api.stage.rows("SELECT DISTINCT correlation_id FROM history WHERE bot_id IS NOT NULL")
    assert kept == [{"correlation_id": "call-7/a"}]


# GET /v1/bots, /v1/queue


async def test_bots_are_listed_newest_first_page_by_page(api: Api) -> None:
    made = [(await api.create(platform="teams"))["bot"]["id"] for _ in range(5)]
    seen, query = [], {"limit": 2}
    while True:
        page = (await api.get("/v1/bots", **query)).json()
        assert set(page) == {"bots", "nextCursor"}
        assert all(list(bot) == BOT_FIELDS for bot in page["bots"])
        seen.append([bot["id"] for bot in page["bots"]])
        if page["nextCursor"] is None:
            break
        query["cursor"] = page["nextCursor"]
        await api.create(platform="teams")  # a newcomer shifts nothing
    newest = made[::-1]
    assert seen == [newest[0:2], newest[2:4], newest[4:5]]


async def test_a_last_page_that_is_full_has_no_next(api: Api) -> None:
    for _ in range(2):
        await api.create()
    assert (await api.get("/v1/bots", limit=2)).json()["nextCursor"] is None


async def test_bots_are_filtered(api: Api) -> None:
    runs = (await api.running())["id"]
    waits = (await api.create(platform="teams"))["bot"]["id"]
    assert await ids(api, status="QUEUED") == [waits]
    assert await ids(api, platform="google-meet") == [runs]
    assert await ids(api, platform="google-meet", status="QUEUED") == []
    assert await ids(api, platform="webex") == []


async def test_the_queue(api: Api) -> None:
    last = (await api.create(platform="teams", queueTimeoutMs=60_000))["bot"]
    first = (await api.create(platform="teams", priority=1))["bot"]
    queue = (await api.get("/v1/queue", platform="teams")).json()["queue"]
    assert [entry["botId"] for entry in queue] == [first["id"], last["id"]]
    assert queue[1] == {
        "botId": last["id"],
        "platform": "teams",
        "priority": 100,
        "position": 2,
        "queuedAt": last["queuedAt"],
        "timeoutAt": queue[1]["timeoutAt"],
        "estimatedWaitMs": queue[1]["estimatedWaitMs"],
    }
    waits = datetime.fromisoformat(queue[1]["timeoutAt"]) - datetime.fromisoformat(last["queuedAt"])
    assert waits.total_seconds() == 60
    assert (await api.get("/v1/queue", platform="google-meet")).json() == {"queue": []}


# DELETE /v1/bots/{id}


async def test_stopping_a_queued_bot(api: Api) -> None:
    bot = (await api.create(platform="teams"))["bot"]
    answer = await api.delete(f"/v1/bots/{bot['id']}")
    assert (answer.status_code, answer.json()["bot"]["status"]) == (202, "CANCELLED")
    assert (await api.get("/v1/queue")).json() == {"queue": []}


async def test_stopping_a_bot_that_deploys(api: Api) -> None:
    bot = (await api.create())["bot"]
    answer = await api.delete(f"/v1/bots/{bot['id']}")
    assert (answer.status_code, answer.json()["bot"]["status"]) == (202, "CANCELLED")
    await api.stage.settle(api.replica)
    assert api.stage.backend.running == []


async def test_stopping_a_bot_that_runs(api: Api) -> None:
    bot = await api.running()
    answer = await api.delete(f"/v1/bots/{bot['id']}")
    assert (answer.status_code, answer.json()["bot"]["status"]) == (202, "LEAVING")
    beat = await api.client.post(
        f"/v1/agent/bots/{bot['id']}/heartbeat", headers=api.agent(bot["id"])
    )
    assert beat.json() == {"shouldLeave": True, "shouldExit": False}
    assert (await api.delete(f"/v1/bots/{bot['id']}")).json()["bot"]["status"] == "LEAVING"
    await api.report(bot["id"], "DONE")
    assert (await api.bot(bot["id"]))["status"] == "DONE"


async def test_a_bot_that_does_not_leave_is_cancelled(api: Api) -> None:
    bot = await api.running()
    await api.delete(f"/v1/bots/{bot['id']}")
    api.stage.clock.move(31)
    await api.stage.settle(api.replica)
    assert (await api.bot(bot["id"]))["status"] == "CANCELLED"
    assert api.stage.backend.running == []


async def test_stopping_a_bot_that_has_ended(api: Api) -> None:
    bot = await api.running()
    await api.report(bot["id"], "DONE")
    await api.stage.settle(api.replica)
    with unchanged(api.stage.url):
        answer = await api.delete(f"/v1/bots/{bot['id']}")
    assert (answer.status_code, answer.json()["bot"]["status"]) == (200, "DONE")


# Logs and history


async def test_logs(api: Api) -> None:
    bot = await api.running()
    for query in ({}, {"tail": 5}, {"follow": "true"}, {"tail": 0, "follow": "false"}):
        answer = await api.get(f"/v1/bots/{bot['id']}/logs", **query)
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.text == "output of 1\n"
    waits = (await api.create(platform="teams"))["bot"]
    nothing = await api.get(f"/v1/bots/{waits['id']}/logs")
    assert (nothing.status_code, nothing.text) == (200, "")


async def test_history_is_told_oldest_first(api: Api) -> None:
    bot = await api.running()
    await api.report(bot["id"], "IN_CALL")
    await api.report(bot["id"], "FATAL", failureReason="the host said no")
    events = await events_of(api, bot["id"])
    assert all(
        set(event) == {"at", "kind", "from", "to", "slotName", "reason", "data"} for event in events
    )
    moves = [(event["from"], event["to"]) for event in events if event["kind"] == "bot.status"]
    assert moves == [
        (None, "PENDING"),
        ("PENDING", "DEPLOYING"),
        ("DEPLOYING", "JOINING_CALL"),
        ("JOINING_CALL", "IN_CALL"),
        ("IN_CALL", "FAILED"),
    ]
    assert all(TIME.fullmatch(event["at"]) for event in events)
    assert events[-1]["slotName"] == "pool-google-meet-001"
    assert any(event["reason"] == "the host said no" for event in events)


async def test_secrets_appear_nowhere(api: Api) -> None:
    bot = await api.running()
    token = api.agent(bot["id"])["Authorization"].removeprefix("Bearer ")
    for path in (
        "/v1/bots",
        f"/v1/bots/{bot['id']}",
        f"/v1/bots/{bot['id']}/events",
        "/v1/pools",
        "/v1/slots",
        "/v1/slots/1/history",
        "/v1/keys",
        "/v1/queue",
        "/readyz",
        "/openapi.json",
    ):
        text = (await api.client.get(path, headers=api.admin)).text
        for secret in (*api.keys.values(), token, token.split(".")[2]):
            assert secret not in text, path
    assert not any(secret in str(contents(api.stage.url)) for secret in (*api.keys.values(), token))
