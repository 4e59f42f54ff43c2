"""The users' API: creating bots."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest

from tests.support.http_server import (
    BOT_FIELDS,
    LINK,
    TIME,
    Api,
    api_over,
    assert_problem,
    unchanged,
)
from tests.support.replicas import TEAMS, Stage, pool


@pytest.fixture
async def api(stage: Stage) -> AsyncIterator[Api]:
    """Two slots for Google Meet and none for Teams, so that bots for Teams are queued."""
    async with api_over(stage, pool(2), pool(0, TEAMS)) as api:
        yield api


# POST /v1/bots


async def test_response_describes_the_new_bot(api: Api) -> None:
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


async def test_response_does_not_wait_for_the_backend(api: Api) -> None:
    await api.create()
    assert api.stage.backend.calls == []
    (slot,) = (await api.client.get("/v1/slots", headers=api.operator)).json()["slots"]
    assert (slot["status"], slot["phase"]) == ("deploying", "creating")


async def test_response_of_a_queued_bot_has_position_and_estimate(api: Api) -> None:
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


async def test_estimate_is_absent_without_measurements(api: Api) -> None:
    assert set(await api.create(platform="teams")) == {"bot", "queuePosition"}


async def test_largest_allowed_values_are_accepted(api: Api) -> None:
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
    response = await api.client.get(
        "/v1/agent/slot",
        params={"containerId": bot["containerId"]},
        headers=api.agent(bot["id"]),
    )
    assert response.json()["botData"] == data


async def test_bot_data_is_returned_unchanged(api: Api) -> None:
    nested: Any = "end"
    for _ in range(63):
        nested = [nested]
    sent = {"text": "\\u0000 ü \U0001f916 \n", "n": [10**30, -0.5, 1e300, True, None], "": nested}
    bot = await api.running(botData=sent)
    response = await api.client.get(
        "/v1/agent/slot", params={"containerId": bot["containerId"]}, headers=api.agent(bot["id"])
    )
    assert response.json()["botData"] == sent


@pytest.mark.parametrize(
    ("link", "platform"),
    [
        ("https://meet.google.com/abc-defg-hij", "google-meet"),
        ("HTTPS://Meet.Google.com/abc", "google-meet"),
        ("https://teams.microsoft.com/l/meetup-join/x", "teams"),
        ("https://teams.live.com/meet/1", "teams"),
    ],
)
async def test_pool_is_derived_from_the_meeting_link(api: Api, link: str, platform: str) -> None:
    assert (await api.create(meetingUrl=link))["bot"]["platform"] == platform


async def test_named_pool_takes_precedence_over_the_link(api: Api) -> None:
    created = await api.create(meetingUrl="https://example.org/room", platform="teams")
    assert created["bot"]["platform"] == "teams"


async def test_lower_priority_is_served_first(api: Api) -> None:
    late = await api.create(platform="teams", priority=101)
    usual = await api.create(platform="teams")
    urgent = await api.create(platform="teams", priority=5)
    assert urgent["queuePosition"] == 1
    await api.replica.pools.configure([pool(1, TEAMS)])
    positions = {
        entry["botId"]: entry["position"] for entry in (await api.get("/v1/queue")).json()["queue"]
    }
    assert positions == {usual["bot"]["id"]: 1, late["bot"]["id"]: 2}
    assert (await api.bot(urgent["bot"]["id"]))["status"] == "DEPLOYING"


async def test_bot_that_must_not_queue_gets_503_and_is_not_recorded(api: Api) -> None:
    with unchanged(api.stage.url):
        answer = await api.post(
            "/v1/bots", {"meetingUrl": LINK, "platform": "teams", "queueTimeoutMs": 0}
        )
    assert_problem(answer, 503, "No slot of pool teams")
    assert int(answer.headers["retry-after"]) > 0
    taken = await api.create(queueTimeoutMs=0)
    assert taken["bot"]["status"] == "DEPLOYING"


async def test_drained_pool_refuses_bots_with_the_reason(api: Api) -> None:
    await api.client.post("/v1/pools/google-meet/drain", headers=api.operator)
    with unchanged(api.stage.url):
        answer = await api.post("/v1/bots", {"meetingUrl": LINK})
    assert_problem(answer, 503, "Pool google-meet is drained")
    assert int(answer.headers["retry-after"]) > 0


async def test_repeated_idempotency_key_returns_the_same_bot(api: Api) -> None:
    mark = {"Idempotency-Key": "order-66"}
    sent = {"meetingUrl": LINK, "botData": {"a": 1, "b": 2}}
    first = await api.post("/v1/bots", sent, **mark)
    await api.stage.settle(api.replica)
    # The same contents: explicit defaults, and fields in another order.
    again = await api.post(
        "/v1/bots", {"botData": {"b": 2, "a": 1}, "priority": 100, "meetingUrl": LINK}, **mark
    )
    assert (first.status_code, again.status_code) == (201, 200)
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    assert again.json()["bot"]["id"] == first.json()["bot"]["id"]
    assert again.json()["bot"]["status"] == "JOINING_CALL", "not the current state"
    with unchanged(api.stage.url):
        other = await api.post("/v1/bots", {**sent, "priority": 1}, **mark)
    assert_problem(other, 409, "Idempotency-Key was used for another request")


async def test_repeated_idempotency_key_waits_for_the_first_request(api: Api) -> None:
    sent = [
        api.post("/v1/bots", {"meetingUrl": LINK}, **{"Idempotency-Key": "k"}) for _ in range(8)
    ]
    answers = await asyncio.gather(*sent)
    assert sorted(answer.status_code for answer in answers) == [200] * 7 + [201]
    assert len((await api.get("/v1/bots")).json()["bots"]) == 1


async def test_idempotency_keys_of_two_api_keys_are_independent(api: Api) -> None:
    mark = {"Idempotency-Key": "k"}
    first = await api.post("/v1/bots", {"meetingUrl": LINK}, **mark)
    second = await api.client.post("/v1/bots", json={"meetingUrl": LINK}, headers=api.admin | mark)
    assert second.status_code == 201
    assert second.json()["bot"]["id"] != first.json()["bot"]["id"]


async def test_refused_request_does_not_use_its_idempotency_key(api: Api) -> None:
    mark = {"Idempotency-Key": "k"}
    sent = {"meetingUrl": LINK, "platform": "teams", "queueTimeoutMs": 0}
    assert (await api.post("/v1/bots", sent, **mark)).status_code == 503
    await api.replica.pools.configure([pool(1, TEAMS)])
    assert (await api.post("/v1/bots", sent, **mark)).status_code == 201


async def test_correlation_id_of_the_caller_is_used(api: Api) -> None:
    answer = await api.post("/v1/bots", {"meetingUrl": LINK}, **{"X-Correlation-ID": "call-7/a"})
    assert answer.json()["bot"]["correlationId"] == "call-7/a"
    assert answer.headers["X-Correlation-ID"] == "call-7/a"
    kept = api.stage.rows("SELECT DISTINCT correlation_id FROM history WHERE bot_id IS NOT NULL")
    assert kept == [{"correlation_id": "call-7/a"}]


# Hosts of meeting links


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data/",
        "http://2130706433/",
        "http://[::ffff:127.0.0.1]/",
        "http://localhost:8700/",
        "https://meet.google.com@10.0.0.1/abc",
    ],
)
async def test_link_to_a_private_address_is_refused(api: Api, url: str) -> None:
    with unchanged(api.stage.url):
        answer = await api.post("/v1/bots", {"meetingUrl": url, "platform": "google-meet"})
    problem = assert_problem(answer, 422, "pools.google-meet.allowed_hosts")
    assert [error["field"] for error in problem["errors"]] == ["meetingUrl"]


async def test_pool_accepts_its_allowed_hosts_only(stage: Stage) -> None:
    patterns = ("127.0.0.1", "*.example.org")
    async with api_over(stage, pool(2), allowed_hosts=patterns) as api:
        for url, status in (
            ("http://127.0.0.1:4711/room", 201),
            ("https://meet.example.org/room", 201),
            ("https://meet.google.com/abc", 422),
        ):
            answer = await api.post("/v1/bots", {"meetingUrl": url, "platform": "google-meet"})
            assert answer.status_code == status, answer.text
