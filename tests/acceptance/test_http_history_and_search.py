"""Pool activity, slot assignments, histories, timelines and the search."""

from typing import Any

import httpx

from botpool.domain.observation import ContainerState
from tests.support.clock import Clock
from tests.support.http_server import LINK, Api, api_over, assert_problem, pages_of
from tests.support.replicas import TEAMS, Stage, pool


async def get(api: Api, path: str, **query: Any) -> Any:
    answer = await api.client.get(path, params=query, headers=api.operator)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def run_to_its_end(api: Api, stage: Stage, bot_id: int) -> None:
    done = await api.client.post(
        f"/v1/agent/bots/{bot_id}/status", json={"status": "DONE"}, headers=api.agent(bot_id)
    )
    assert done.status_code == 200, done.text
    await stage.settle(api.replica)


async def test_pool_activity_by_minute(stage: Stage, clock: Clock) -> None:
    clock.freeze("2026-01-05T10:00:30Z")
    async with api_over(stage, pool(1), pool(1, TEAMS)) as api:
        await api.create()
        await api.create()
        await api.replica.pool_samples.record()
        clock.move(45)
        await stage.settle(api.replica)
        await run_to_its_end(api, stage, 1)
        await api.replica.pool_samples.record()
        clock.move(60)
        found = await get(api, "/v1/pools/google-meet/activity", minutes=4)
        others = await get(api, "/v1/pools/teams/activity")
        # A second sample in the same minute: the longest queue and the current slots count.
        clock.move(-105)
        await api.replica.pool_samples.record()
        again = await get(api, "/v1/pools/google-meet/activity", minutes=1)
    nothing = {
        "arrivals": 0, "queueDepth": None, "slots": None,
        "timeToRunningP50Ms": None, "timeToRunningP95Ms": None,
    }  # fmt: skip
    assert found["minutes"] == [
        {"at": "2026-01-05T09:59:00Z", **nothing},
        {
            "at": "2026-01-05T10:00:00Z", "arrivals": 2, "queueDepth": 1,
            "slots": {"deploying": 1}, "timeToRunningP50Ms": None, "timeToRunningP95Ms": None,
        },
        {
            "at": "2026-01-05T10:01:00Z", "arrivals": 0, "queueDepth": 0, "slots": {"busy": 1},
            "timeToRunningP50Ms": 22_500, "timeToRunningP95Ms": 42_750,
        },
        {"at": "2026-01-05T10:02:00Z", **nothing},
    ]  # fmt: skip
    assert len(others["minutes"]) == 60
    assert {minute["arrivals"] for minute in others["minutes"]} == {0}
    assert again["minutes"][0]["queueDepth"] == 1
    assert again["minutes"][0]["slots"] == {"busy": 1}


async def test_old_pool_samples_are_deleted(stage: Stage, clock: Clock) -> None:
    replica = await stage.replica(pool(1), pool(1, TEAMS))
    await replica.pool_samples.record()
    clock.move(49 * 3600)
    await replica.pool_samples.record()
    assert len(stage.rows("SELECT * FROM pool_samples")) == 2


async def test_pool_figures_count_started_bots(stage: Stage) -> None:
    async with api_over(stage, pool(2)) as api:
        await api.create()
        before = (await get(api, "/v1/pools/google-meet"))["pool"]
        await stage.settle(api.replica)
        after = (await get(api, "/v1/pools/google-meet"))["pool"]
    assert (before["warmHitRatio"], before["timeToRunningP50Ms"]) == (None, None)
    assert after["slotsByStatus"] == {"busy": 1}, "the bot runs"
    assert after["warmHitRatio"] == 0.0
    assert after["timeToRunningP50Ms"] >= 0


async def test_slot_assignments_are_ordered_newest_first(stage: Stage) -> None:
    async with api_over(stage, pool(1)) as api:
        stage.backend.state_after_start = ContainerState.ERROR
        await api.create()
        await stage.settle(api.replica)
        stage.backend.state_after_start = ContainerState.RUNNING
        await api.create()
        await stage.settle(api.replica)
        await run_to_its_end(api, stage, 2)
        await api.create()
        (slot,) = stage.slots()
        found = (await get(api, f"/v1/slots/{slot['id']}/assignments"))["assignments"]
        failed = (await get(api, "/v1/bots/1/timeline"))["phases"]
        done = (await get(api, "/v1/bots/2/timeline"))["phases"]
        assert_problem(
            await api.client.get("/v1/slots/99/assignments", headers=api.operator), 404, "slot 99"
        )
    now, whole, second, first = found
    assert (now["botId"], now["botStatus"], now["endedAt"], now["releasedAt"]) == (
        3, "DEPLOYING", None, None,
    )  # fmt: skip
    assert (whole["botId"], whole["botStatus"], whole["failureCode"]) == (2, "DONE", None)
    assert whole["claimedAt"] <= whole["startedAt"] <= whole["endedAt"] <= whole["releasedAt"]
    for each in (first, second):
        assert (each["botId"], each["botStatus"], each["startedAt"]) == (1, "FAILED", None)
        assert (each["failureCode"], each["failureReason"]) == (
            "deploy_failed", "the container is error",
        )  # fmt: skip
        assert each["endedAt"] == each["releasedAt"]
    order = [each["assignmentId"] for each in found]
    assert order == sorted(order, reverse=True)
    assert [bar["phase"] for bar in failed].count("starting") == 2, "one bar per attempt"
    assert [bar["phase"] for bar in done][-2:] == ["joining", "releasing"]
    assert all(bar["from"] < bar["to"] for bar in (*failed, *done))


async def test_slot_history_is_ordered_newest_first(stage: Stage) -> None:
    """With and without a bot, in order, limited to the newest rows."""
    async with api_over(stage, pool(1)) as api:
        for failing in (True, False):
            state = ContainerState.ERROR if failing else ContainerState.RUNNING
            stage.backend.state_after_start = state
            await api.create()
            await stage.settle(api.replica)
        await run_to_its_end(api, stage, 2)
        (slot,) = stage.slots()
        found = (await get(api, f"/v1/slots/{slot['id']}/history"))["events"]
        path = f"/v1/slots/{slot['id']}/history"
        paged = await pages_of(api, path, "events", limit=3)
    written = stage.rows("SELECT * FROM history WHERE slot_id IS NOT NULL ORDER BY id DESC")
    assert {row["bot_id"] for row in written} == {None, 1, 2}
    expected = [(row["kind"], row["from_state"], row["to_state"]) for row in written]
    assert [(event["kind"], event["from"], event["to"]) for event in found] == expected
    assert [len(page) for page in paged[:-1]] == [3] * (len(paged) - 1)
    assert [event for page in paged for event in page] == found


async def found_by(api: Api, search: str) -> list[int]:
    return [bot["id"] for bot in (await get(api, "/v1/bots", search=search))["bots"]]


async def test_search_finds_bots_by_text_and_number(stage: Stage) -> None:
    async with api_over(stage, pool(0)) as api:
        for n, fields in enumerate(
            [
                {"botDisplayName": "Größe 100%_x"},
                {"meetingUrl": f"{LINK}?ROOM=Blue_1"},
                {"botDisplayName": "a\\b"},
                {"botDisplayName": "21"},
            ],
            1,
        ):
            answer = await api.post(
                "/v1/bots", {"meetingUrl": LINK} | fields, **{"X-Correlation-ID": f"Corr-{n}"}
            )
            assert answer.status_code == 201
        assert await found_by(api, "größe") == [1]
        assert await found_by(api, "%") == [1]
        assert await found_by(api, "_") == [2, 1]
        assert await found_by(api, "\\") == [3]
        assert await found_by(api, "room=blue") == [2]
        assert await found_by(api, "CORR-3") == [3]
        assert await found_by(api, "2") == [4, 2], "a number matches an id or a part of a name"
        assert await found_by(api, "meet.google.com") == [4, 3, 2, 1]
        assert await found_by(api, "'; --") == []
        page = await get(api, "/v1/bots", search="corr", limit=3)
        assert len(page["bots"]) == 3
        rest = await get(api, "/v1/bots", search="corr", cursor=page["nextCursor"])
        assert [bot["id"] for bot in rest["bots"]] == [1]


WRONG = {
    "/v1/pools/google-meet/activity?minutes=0": "minutes",
    "/v1/pools/google-meet/activity?minutes=1441": "minutes",
    "/v1/pools/google-meet/activity?minutes=1.0": "minutes",
    "/v1/pools/GM/activity": "platform",
    "/v1/slots/x/assignments": "id",
    "/v1/bots/0/timeline": "id",
    "/v1/bots?search=": "search",
    "/v1/bots?search=a%00": "NUL",
    "/v1/bots?search=" + "x" * 201: "search",
}


async def test_invalid_parameters_are_rejected(stage: Stage) -> None:
    async with api_over(stage, pool(0)) as api:
        for path, word in WRONG.items():
            assert_problem(await api.client.get(path, headers=api.operator), 422, word)
        for path in ("/v1/pools/nowhere/activity", "/v1/bots/9/timeline"):
            assert_problem(await api.client.get(path, headers=api.operator), 404)
        too_long: httpx.Response = await api.client.get(
            "/v1/events", headers={**api.operator, "Last-Event-ID": "9" * 2000}
        )
        assert_problem(too_long, 422, "Last-Event-ID")
