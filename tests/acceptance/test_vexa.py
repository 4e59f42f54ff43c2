"""The lifecycle callbacks of Vexa's bots."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.support.http_server import Api, api_over, assert_problem, unchanged
from tests.support.replicas import Stage, pool


@pytest.fixture
async def api(stage: Stage) -> AsyncIterator[Api]:
    async with api_over(stage, pool(1)) as api:
        yield api


async def post(api: Api, body: Any, headers: dict[str, str] | None = None) -> httpx.Response:
    path = "/v1/agent/vexa/status_change"
    return await api.client.post(path, json=body, headers=headers or api.agent(1))


async def report(api: Api, status: str, **more: Any) -> dict[str, Any]:
    answer = await post(api, {"connection_id": "c", "status": status, **more})
    assert answer.status_code == 200, answer.text
    assert answer.json()["status"] == "ok"
    return await api.bot(1)


async def test_statuses_of_a_meeting_are_followed(api: Api) -> None:
    await api.running()
    assert (await report(api, "joining"))["status"] == "JOINING_CALL"
    assert (await report(api, "awaiting_admission"))["status"] == "IN_WAITING_ROOM"
    assert (await report(api, "active"))["status"] == "IN_CALL"
    assert (await report(api, "needs_help", reason="captcha"))["status"] == "IN_CALL"
    ended = await report(api, "completed", completion_reason="left_alone", exit_code=0)
    assert (ended["status"], ended["endReason"]) == ("DONE", "alone")
    with unchanged(api.stage.url):
        late = await report(api, "failed")
    assert late["status"] == "DONE"


async def test_older_bots_send_the_token_as_internal_secret(api: Api) -> None:
    await api.running()
    token = api.agent(1)["Authorization"].removeprefix("Bearer ")
    body = {"connection_id": "c", "status": "active"}
    assert (await post(api, body, {"x-internal-secret": token})).json()["applied"]
    with unchanged(api.stage.url):
        assert_problem(await post(api, body, {"x-internal-secret": "bpa.1.deadbeef"}), 401)


@pytest.mark.parametrize(
    ("more", "end_reason"),
    [
        ({"completion_reason": "awaiting_admission_rejected"}, "denied"),
        ({"completion_reason": "awaiting_admission_timeout"}, "lobby_timeout"),
        ({"completion_reason": "evicted"}, "removed"),
        ({"completion_reason": "a new reason"}, None),
    ],
)
async def test_reason_of_a_failure_is_translated(
    api: Api, more: dict[str, Any], end_reason: str | None
) -> None:
    await api.running()
    failed = await report(
        api, "failed", reason="No luck", failure_stage="joining", exit_code=1, **more
    )
    assert (failed["status"], failed["endReason"]) == ("FAILED", end_reason)
    assert failed["failureReason"] == "No luck, stage joining, exit code 1"


async def test_completed_with_another_exit_code_has_failed(api: Api) -> None:
    await api.running()
    assert (await report(api, "completed", exit_code=3))["status"] == "FAILED"


async def test_end_of_the_log_is_in_the_history(api: Api) -> None:
    await api.running()
    await report(api, "failed", bot_logs=["first", "last"], speaker_events=[{}])
    events = (await api.get("/v1/bots/1/events", limit=500)).json()["events"]
    (event,) = [each for each in events if each["kind"] == "agent.vexa.failed"]
    assert event["data"]["bot_logs"] == ["first", "last"]


@pytest.mark.parametrize(
    "body", [{}, [], {"status": "happy"}, {"status": "active", "reason": "x" * 3000}]
)
async def test_wrong_callback_is_refused(api: Api, body: Any) -> None:
    await api.running()
    with unchanged(api.stage.url):
        assert_problem(await post(api, body), 422)
