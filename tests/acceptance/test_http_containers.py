"""The API for agents, as an agent in any language uses it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.http_server import Api, api_over, assert_problem, unchanged
from tests.support.replicas import Stage, pool


@pytest.fixture
async def api(stage: Stage) -> AsyncIterator[Api]:
    async with api_over(stage, pool(1)) as api:
        yield api


async def identify(api: Api, bot: dict[str, Any], headers: dict[str, str] | None = None) -> Any:
    answer = await api.client.get(
        "/v1/agent/slot",
        params={"containerId": bot["containerId"]},
        headers=headers or api.agent(bot["id"]),
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


async def heartbeat(
    api: Api, bot_id: int, headers: dict[str, str] | None = None, body: Any = None
) -> Any:
    path = f"/v1/agent/bots/{bot_id}/heartbeat"
    answer = await api.client.post(path, headers=headers or api.agent(bot_id), json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def record(api: Api, bot_id: int, events: list[dict[str, Any]]) -> int:
    path = f"/v1/agent/bots/{bot_id}/events"
    answer = await api.client.post(path, json={"events": events}, headers=api.agent(bot_id))
    assert answer.status_code == 200, answer.text
    recorded: int = answer.json()["recorded"]
    return recorded


async def deploying(api: Api, **fields: Any) -> dict[str, Any]:
    """A bot whose container was started and not yet observed."""
    created = await api.create(**fields)
    while not api.stage.backend.calls_of("start"):
        await api.stage.step(api.replica)
    return await api.bot(created["bot"]["id"])


async def test_agent_gets_its_bot_and_bot_data(api: Api) -> None:
    bot = await api.running(botData={"staySeconds": 3})
    response = await identify(api, bot)
    assert response == {
        "bot": await api.bot(bot["id"]),
        "botData": {"staySeconds": 3},
        "released": False,
        "heartbeatIntervalMs": 10_000,
    }


@pytest.mark.parametrize("first_call", ["slot", "heartbeat", "status", "events"])
async def test_first_call_of_an_agent_makes_its_slot_busy(api: Api, first_call: str) -> None:
    bot = await deploying(api)
    assert bot["status"] == "DEPLOYING"
    match first_call:
        case "slot":
            assert (await identify(api, bot))["bot"]["status"] == "JOINING_CALL"
        case "heartbeat":
            assert await heartbeat(api, bot["id"]) == {
                "shouldLeave": False,
                "shouldExit": False,
                "commands": [],
            }
        case "status":
            assert (await api.report(bot["id"], "IN_WAITING_ROOM")).json()["applied"]
        case "events":
            assert await record(api, bot["id"], [{"kind": "hello"}]) == 1
    assert api.stage.slots()[0]["status"] == "busy"
    assert (await api.bot(bot["id"]))["startedAt"] is not None


async def test_container_environment_identifies_the_bot(api: Api) -> None:
    bot = await api.running()
    (container,) = api.stage.backend.containers.values()
    environment = container.environment
    assert set(environment) == {
        "BOTPOOL_URL",
        "BOTPOOL_CONTAINER_ID",
        "BOTPOOL_TOKEN",
        "BOT_DATA",
    }
    headers = {"Authorization": f"Bearer {environment['BOTPOOL_TOKEN']}"}
    place = {"containerId": environment["BOTPOOL_CONTAINER_ID"]}
    assert (await identify(api, bot | place, headers))["bot"]["id"] == bot["id"]


async def test_heartbeat_is_recorded(api: Api) -> None:
    bot = await api.running()
    assert bot["lastHeartbeatAt"] is None
    assert await heartbeat(api, bot["id"]) == {
        "shouldLeave": False,
        "shouldExit": False,
        "commands": [],
    }
    first = (await api.bot(bot["id"]))["lastHeartbeatAt"]
    assert first.endswith("Z")
    await heartbeat(api, bot["id"])
    assert (await api.bot(bot["id"]))["lastHeartbeatAt"] > first


async def test_heartbeat_keeps_its_progress_and_the_time_of_the_last_change(api: Api) -> None:
    bot = await api.running()

    def progress() -> tuple[Any, Any]:
        (row,) = api.stage.rows("SELECT progress, progress_at FROM bot_heartbeats")
        return row["progress"], row["progress_at"]

    await heartbeat(api, bot["id"])
    assert progress() == (None, None)
    await heartbeat(api, bot["id"], body={"progress": {"bytes": 1}})
    first = progress()
    assert first[0] == {"bytes": 1}
    for body in ({"progress": {"bytes": 1}}, {}, None, {"phase": "finishing"}):
        api.stage.clock.move(10)
        await heartbeat(api, bot["id"], body=body)
        assert progress() == first, "the figures did not change"
    await heartbeat(api, bot["id"], body={"progress": {"bytes": 2}})
    second = progress()
    assert second[0] == {"bytes": 2}
    assert second[1] > first[1]


async def test_heartbeats_of_one_agent_at_the_same_time_are_all_answered(api: Api) -> None:
    bot = await api.running()
    bodies = [{"progress": {"bytes": number}} for number in range(20)]
    answers = await asyncio.gather(*(heartbeat(api, bot["id"], body=body) for body in bodies))
    assert answers == [{"shouldLeave": False, "shouldExit": False, "commands": []}] * 20


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"phase": "singing"}, "phase"),
        ({"progress": [1]}, "progress"),
        ({"progress": {"note": "x" * 5000}}, "progress"),
        ({"lastMediaAt": "yesterday"}, "lastMediaAt"),
        ({"lastMediaAt": "2026-01-01T00:00:00"}, "lastMediaAt"),
        ({"acknowledged": [0]}, "acknowledged"),
        ({"acknowledged": list(range(1, 200))}, "acknowledged"),
        ({"colour": "red"}, "colour"),
    ],
)
async def test_wrong_heartbeat_body_is_refused_and_records_nothing(
    api: Api, body: Any, field: str
) -> None:
    bot = await api.running()
    path = f"/v1/agent/bots/{bot['id']}/heartbeat"
    answer = await api.client.post(path, json=body, headers=api.agent(bot["id"]))
    assert answer.status_code == 422, answer.text
    assert field in answer.json()["detail"]
    assert api.stage.rows("SELECT * FROM bot_heartbeats") == []


async def test_backward_status_reports_are_not_applied(api: Api) -> None:
    bot = await api.running()
    reports = ["IN_WAITING_ROOM", "IN_CALL", "IN_WAITING_ROOM", "JOINING_CALL", "IN_CALL"]
    answers = [(await api.report(bot["id"], status)).json() for status in reports]
    assert [answer["applied"] for answer in answers] == [True, True, False, False, False]
    assert {answer["bot"]["status"] for answer in answers[1:]} == {"IN_CALL"}
    assert (await api.report(bot["id"], "CALL_ENDED")).json()["applied"]
    assert (await api.report(bot["id"], "DONE")).json()["bot"]["status"] == "DONE"


@pytest.mark.parametrize("word", ["FAILED", "FATAL"])
async def test_reported_failure_keeps_its_reason(api: Api, word: str) -> None:
    bot = await api.running()
    answer = (await api.report(bot["id"], word, failureReason="rejected by the host")).json()
    assert answer["applied"]
    assert answer["bot"] == answer["bot"] | {
        "status": "FAILED",
        "failureCode": "meeting_failed",
        "failureReason": "rejected by the host",
    }
    assert answer["bot"]["endedAt"].endswith("Z")


async def test_reports_after_the_end_are_not_applied(api: Api) -> None:
    bot = await api.running()
    await api.report(bot["id"], "DONE")
    with unchanged(api.stage.url):
        for late in ("FAILED", "IN_CALL", "DONE"):
            answer = await api.report(bot["id"], late)
            assert (answer.status_code, answer.json()["applied"]) == (200, False)
            assert answer.json()["bot"]["status"] == "DONE"


async def test_agent_events_are_added_to_the_history(api: Api) -> None:
    bot = await api.running()
    largest = {"a": "x" * (8 * 1024 - 8)}
    sent: list[dict[str, Any]] = [
        {"kind": "chat.message", "data": largest},
        *[{"kind": "tick"}] * 99,
    ]
    assert await record(api, bot["id"], sent) == 100
    assert await record(api, bot["id"], []) == 0
    response = (await api.get(f"/v1/bots/{bot['id']}/events", limit=500)).json()["events"]
    own = [event for event in response if event["kind"].endswith(("chat.message", "tick"))]
    assert len(own) == 100
    assert own[0]["data"] == largest


async def test_agent_of_a_released_slot_gets_should_exit_and_changes_nothing(api: Api) -> None:
    """The agent's assignment has ended, and its container already serves another bot."""
    first = await api.running(botData={"whose": "first"})
    straggler = api.agent(first["id"])
    await api.report(first["id"], "DONE")
    second = await api.running()
    assert second["containerId"] == first["containerId"]
    path = f"/v1/agent/bots/{first['id']}"
    with unchanged(api.stage.url):
        response = await identify(api, first, straggler)
        assert response["released"]
        assert response["bot"]["id"] == first["id"]
        assert set(first) - set(response["bot"]) == {"meetingUrl"}
        assert set(response) == {"bot", "released", "heartbeatIntervalMs"}
        beat = await heartbeat(api, first["id"], straggler)
        assert beat == {"shouldLeave": True, "shouldExit": True, "commands": []}
        report = {"status": "FAILED", "failureReason": "late"}
        late = await api.client.post(f"{path}/status", json=report, headers=straggler)
        assert (late.status_code, late.json()["applied"]) == (200, False)
        assert "meetingUrl" not in late.json()["bot"]
        sent = {"events": [{"kind": "late"}]}
        recorded = await api.client.post(f"{path}/events", json=sent, headers=straggler)
        assert recorded.json() == {"recorded": 0}


async def test_agent_of_a_cancelled_bot_gets_should_exit(api: Api) -> None:
    bot = await deploying(api)
    await api.delete(f"/v1/bots/{bot['id']}")
    with unchanged(api.stage.url):
        assert (await identify(api, bot))["released"]
        assert await heartbeat(api, bot["id"]) == {
            "shouldLeave": True,
            "shouldExit": True,
            "commands": [],
        }


async def test_end_reason_of_the_call_is_kept_with_the_bot(api: Api) -> None:
    bot = await api.running()
    assert bot["endReason"] is None
    assert (await api.report(bot["id"], "CALL_ENDED", endReason="alone")).json()["applied"]
    assert (await api.report(bot["id"], "DONE")).json()["bot"]["endReason"] == "alone"
    with unchanged(api.stage.url):
        await api.report(bot["id"], "DONE", endReason="removed")


async def test_blocked_bot_has_its_own_failure_code(api: Api) -> None:
    bot = await api.running()
    report = await api.report(bot["id"], "FAILED", failureReason="captcha", endReason="blocked")
    assert report.json()["bot"]["failureCode"] == "blocked"
    assert (await api.bot(bot["id"]))["endReason"] == "blocked"


async def test_bot_that_was_asked_to_leave_has_left(api: Api) -> None:
    bot = await api.running()
    await api.delete(f"/v1/bots/{bot['id']}")
    await api.report(bot["id"], "DONE")
    assert (await api.bot(bot["id"]))["endReason"] == "left"


@pytest.mark.parametrize(
    "body", [{"status": "IN_CALL", "endReason": "left"}, {"status": "DONE", "endReason": "bored"}]
)
async def test_wrong_end_reason_is_refused(api: Api, body: dict[str, Any]) -> None:
    bot = await api.running()
    path = f"/v1/agent/bots/{bot['id']}/status"
    with unchanged(api.stage.url):
        answer = await api.client.post(path, json=body, headers=api.agent(bot["id"]))
    assert_problem(answer, 422)
