"""The users' API: reading and stopping bots."""

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest

from botpool.domain.errors import BackendUnavailable
from tests.support.http_server import (
    BOT_FIELDS,
    TIME,
    Api,
    api_over,
    assert_problem,
    contents,
    unchanged,
)
from tests.support.replicas import TEAMS, Stage, pool


@pytest.fixture
async def api(stage: Stage) -> AsyncIterator[Api]:
    """Two slots for Google Meet and none for Teams, so that bots for Teams are queued."""
    async with api_over(stage, pool(2), pool(0, TEAMS)) as api:
        yield api


async def events_of(api: Api, bot_id: int) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = (await api.get(f"/v1/bots/{bot_id}/events")).json()["events"]
    return events


async def ids(api: Api, **query: Any) -> list[int]:
    return [bot["id"] for bot in (await api.get("/v1/bots", **query)).json()["bots"]]


# GET /v1/bots, /v1/queue


async def test_bots_are_listed_newest_first_in_pages(api: Api) -> None:
    created = [(await api.create(platform="teams"))["bot"]["id"] for _ in range(5)]
    loaded, query = [], {"limit": 2}
    while True:
        page = (await api.get("/v1/bots", **query)).json()
        assert set(page) == {"bots", "nextCursor"}
        assert all(list(bot) == BOT_FIELDS for bot in page["bots"])
        loaded.append([bot["id"] for bot in page["bots"]])
        if page["nextCursor"] is None:
            break
        query["cursor"] = page["nextCursor"]
        await api.create(platform="teams")  # A new bot does not shift the pages.
    newest = created[::-1]
    assert loaded == [newest[0:2], newest[2:4], newest[4:5]]


async def test_full_last_page_has_no_next_cursor(api: Api) -> None:
    for _ in range(2):
        await api.create()
    assert (await api.get("/v1/bots", limit=2)).json()["nextCursor"] is None


async def test_bots_are_filtered_by_status_and_pool(api: Api) -> None:
    runs = (await api.running())["id"]
    waits = (await api.create(platform="teams"))["bot"]["id"]
    assert await ids(api, status="QUEUED") == [waits]
    assert await ids(api, platform="google-meet") == [runs]
    assert await ids(api, platform="google-meet", status="QUEUED") == []
    assert await ids(api, platform="webex") == []


async def test_queue_lists_bots_in_order_of_service(api: Api) -> None:
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
    assert (await api.get("/v1/queue", platform="google-meet")).json() == {
        "queue": [],
        "nextCursor": None,
    }


# DELETE /v1/bots/{id}


async def test_stopping_a_queued_bot_cancels_it(api: Api) -> None:
    bot = (await api.create(platform="teams"))["bot"]
    answer = await api.delete(f"/v1/bots/{bot['id']}")
    assert (answer.status_code, answer.json()["bot"]["status"]) == (202, "CANCELLED")
    assert (await api.get("/v1/queue")).json() == {"queue": [], "nextCursor": None}


async def test_stopping_a_deploying_bot_cancels_it(api: Api) -> None:
    bot = (await api.create())["bot"]
    answer = await api.delete(f"/v1/bots/{bot['id']}")
    assert (answer.status_code, answer.json()["bot"]["status"]) == (202, "CANCELLED")
    await api.stage.settle(api.replica)
    assert api.stage.backend.running == []


async def test_stopping_a_running_bot_asks_it_to_leave(api: Api) -> None:
    bot = await api.running()
    answer = await api.delete(f"/v1/bots/{bot['id']}")
    assert (answer.status_code, answer.json()["bot"]["status"]) == (202, "LEAVING")
    beat = await api.client.post(
        f"/v1/agent/bots/{bot['id']}/heartbeat", headers=api.agent(bot["id"])
    )
    assert beat.json() == {"shouldLeave": True, "shouldExit": False, "commands": []}
    assert (await api.delete(f"/v1/bots/{bot['id']}")).json()["bot"]["status"] == "LEAVING"
    await api.report(bot["id"], "DONE")
    assert (await api.bot(bot["id"]))["status"] == "DONE"


async def test_bot_that_does_not_leave_is_cancelled(api: Api) -> None:
    bot = await api.running()
    await api.delete(f"/v1/bots/{bot['id']}")
    api.stage.clock.move(31)
    await api.stage.settle(api.replica)
    assert (await api.bot(bot["id"]))["status"] == "CANCELLED"
    assert api.stage.backend.running == []


async def test_stopping_an_ended_bot_changes_nothing(api: Api) -> None:
    bot = await api.running()
    await api.report(bot["id"], "DONE")
    await api.stage.settle(api.replica)
    with unchanged(api.stage.url):
        answer = await api.delete(f"/v1/bots/{bot['id']}")
    assert (answer.status_code, answer.json()["bot"]["status"]) == (200, "DONE")


# Logs and history


async def test_logs_return_the_container_output(api: Api) -> None:
    bot = await api.running()
    (run,) = api.stage.backend.runs
    for query in ({}, {"tail": 5}, {"follow": "true"}, {"tail": 0, "follow": "false"}):
        answer = await api.get(f"/v1/bots/{bot['id']}/logs", **query)
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.text == f"output of {run}\n"
    waits = (await api.create(platform="teams"))["bot"]
    nothing = await api.get(f"/v1/bots/{waits['id']}/logs")
    assert (nothing.status_code, nothing.text) == (200, "")


async def test_logs_report_a_backend_failure(api: Api) -> None:
    bot = await api.running()
    (run,) = api.stage.backend.runs
    down = BackendUnavailable("no route")
    api.stage.backend.fail("logs", down)
    assert_problem(await api.get(f"/v1/bots/{bot['id']}/logs"), 503, "no route")
    api.stage.backend.fail("rest of logs", down)
    answer = await api.get(f"/v1/bots/{bot['id']}/logs", follow="true")
    assert answer.status_code == 200
    assert answer.text == (
        f"output of {run}\n"
        "[The backend failed while the output was read: The backend does not answer: no route]\n"
    )


async def test_bot_events_are_ordered_oldest_first(api: Api) -> None:
    bot = await api.running()
    await api.report(bot["id"], "IN_CALL")
    await api.report(bot["id"], "FATAL", failureReason="the host said no")
    events = await events_of(api, bot["id"])
    assert all(
        set(event) == {"at", "kind", "from", "to", "slotName", "reason", "data"} for event in events
    )
    transitions = [
        (event["from"], event["to"]) for event in events if event["kind"] == "bot.status"
    ]
    assert transitions == [
        (None, "PENDING"),
        ("PENDING", "DEPLOYING"),
        ("DEPLOYING", "JOINING_CALL"),
        ("JOINING_CALL", "IN_CALL"),
        ("IN_CALL", "FAILED"),
    ]
    assert all(TIME.fullmatch(event["at"]) for event in events)
    assert events[-1]["slotName"] == "pool-google-meet-001"
    assert any(event["reason"] == "the host said no" for event in events)


async def test_responses_contain_no_secrets(api: Api) -> None:
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
        for secret in (*api.api_keys.values(), token, token.split(".")[2]):
            assert secret not in text, path
    assert not any(
        secret in str(contents(api.stage.url)) for secret in (*api.api_keys.values(), token)
    )
