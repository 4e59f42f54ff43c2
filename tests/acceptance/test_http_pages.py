"""Lists have pages: `limit`, `cursor` and `nextCursor`, stable while records come and go."""

import base64
from typing import Any

import httpx
import pytest

from tests.support.http_server import Api, api_over, assert_problem, pages_of
from tests.support.replicas import TEAMS, Stage, pool

EVENTS = 23
LISTS = {
    "/v1/bots": "bots",
    "/v1/queue": "queue",
    "/v1/slots": "slots",
    "/v1/bots/1/events": "events",
    "/v1/bots/1/events?order=newest": "events",
    "/v1/slots/1/history": "events",
    "/v1/slots/1/assignments": "assignments",
    "/v1/bots?containerId=container-1": "bots",
}


async def page(api: Api, path: str, **query: Any) -> dict[str, Any]:
    answer = await api.client.get(path, params=query, headers=api.operator)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def with_query(path: str, **query: str) -> str:
    """Add parameters to a path; httpx would replace those that the path has."""
    return str(httpx.URL(path).copy_merge_params(query))


def flat(pages: list[list[Any]]) -> list[Any]:
    return [record for page in pages for record in page]


async def send_events(api: Api, bot_id: int, count: int, size: int = 0) -> None:
    for first in range(0, count, 100):
        events = [
            {"kind": "chat", "data": {"n": n, "text": "x" * size}}
            for n in range(first, min(count, first + 100))
        ]
        answer = await api.client.post(
            f"/v1/agent/bots/{bot_id}/events", json={"events": events}, headers=api.agent(bot_id)
        )
        assert answer.status_code == 200, answer.text


async def test_events_of_a_bot_have_pages_in_both_orders(stage: Stage) -> None:
    async with api_over(stage, pool(1)) as api:
        bot = await api.running()
        await send_events(api, bot["id"], EVENTS)
        path = f"/v1/bots/{bot['id']}/events"
        whole = (await page(api, path, limit=500))["events"]
        oldest = await pages_of(api, path, "events", limit=10)
        newest = await pages_of(api, path, "events", limit=10, order="newest")
    assert len(whole) > EVENTS
    assert flat(oldest) == whole
    assert flat(newest) == whole[::-1]
    assert {len(each) for each in (*oldest[:-1], *newest[:-1])} == {10}


async def test_page_of_events_is_limited_in_bytes(stage: Stage) -> None:
    async with api_over(stage, pool(1)) as api:
        bot = await api.running()
        await send_events(api, bot["id"], 300, size=8_000)
        path = f"/v1/bots/{bot['id']}/events"
        answer = await api.client.get(path, params={"limit": 500}, headers=api.operator)
        pages = await pages_of(api, path, "events", limit=500)
        slots = await pages_of(api, "/v1/slots/1/history", "events", limit=500)
        newest = await pages_of(api, path, "events", limit=500, order="newest")
    assert len(answer.content) < 1_200_000
    for paged in (pages, newest, slots):
        numbers = [event["data"]["n"] for event in flat(paged) if event["kind"] == "agent.chat"]
        assert sorted(numbers) == [*range(300)]
        assert len(paged) > 2


async def test_pages_are_stable_under_inserts(stage: Stage) -> None:
    """New bots, events and queue entries neither repeat nor hide a record of a later page."""
    async with api_over(stage, pool(1), pool(0, TEAMS)) as api:
        running = (await api.running())["id"]
        for priority in (100, 100, 50, 100):
            await api.create(priority=priority)
        bots = await page(api, "/v1/bots", limit=2)
        queue = await page(api, "/v1/queue", limit=2)
        events = await page(api, f"/v1/bots/{running}/events", limit=2, order="newest")
        await api.create(priority=1)
        await send_events(api, running, 3)
        cursors = [each["nextCursor"] for each in (bots, queue, events)]
        rest = await page(api, "/v1/bots", cursor=cursors[0])
        behind = await page(api, "/v1/queue", cursor=cursors[1])
        older = await page(
            api, f"/v1/bots/{running}/events", order="newest", cursor=cursors[2], limit=500
        )
    assert [bot["id"] for bot in bots["bots"] + rest["bots"]] == [5, 4, 3, 2, 1]
    assert [each["botId"] for each in queue["queue"] + behind["queue"]] == [4, 2, 3, 5]
    assert [each["position"] for each in queue["queue"]] == [1, 2]
    assert [each["position"] for each in behind["queue"]] == [4, 5], "a bot came in before them"
    assert not any(event["kind"] == "agent.chat" for event in older["events"])


def names(records: list[Any]) -> list[tuple[Any, ...]]:
    """The records without their estimates, which change."""
    return [(each.get("botId"), each.get("position"), each.get("name")) for each in records]


async def test_queue_and_slots_of_several_pools_have_pages(stage: Stage) -> None:
    async with api_over(stage, pool(3), pool(2, TEAMS)) as api:
        for n in range(12):
            await api.create(platform=("google-meet", "teams")[n % 2], priority=n % 3)
        for path, part in (("/v1/queue", "queue"), ("/v1/slots", "slots")):
            whole = (await page(api, path, limit=500))[part]
            for limit in (1, 2, 3, 4):
                pages = await pages_of(api, path, part, limit=limit)
                assert names(flat(pages)) == names(whole)
                assert all(len(each) == limit for each in pages[:-1])
            teams = flat(await pages_of(api, path, part, limit=1, platform="teams"))
            assert names(teams) == names([each for each in whole if each["platform"] == "teams"])
        slots = (await page(api, "/v1/slots"))["slots"]
        queue = (await page(api, "/v1/queue"))["queue"]
    assert [slot["name"] for slot in slots] == [
        *(f"pool-google-meet-00{n}" for n in (1, 2, 3)), *(f"pool-teams-00{n}" for n in (1, 2)),
    ]  # fmt: skip
    assert [entry["position"] for entry in queue] == [1, 2, 3, 1, 2, 3, 4]


def encoded(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


WRONG = [
    "1", "x y", "", "%00", "é", "A" * 201, "====", encoded("1"), encoded("null"), encoded("[]"),
    encoded("{}"), encoded('["BotPosition"]'), encoded('["BotPosition", "1"]'),
    encoded('["BotPosition", true]'), encoded('["BotPosition", 1.5]'),
    encoded(f'["BotPosition", {2**63}]'), encoded('["BotPosition", 1, 2]'),
    encoded("[" * 60), encoded('["QueuePosition", "x\\u0000", 1, 1]'),
    encoded('["SlotPosition", "UPPER", 1]'), encoded('["Nothing", 1]'), encoded('[["a"], 1]'),
    encoded('["SlotPosition", 1, "a"]'),
]  # fmt: skip


@pytest.mark.parametrize("path", LISTS)
async def test_bad_cursor_is_refused(stage: Stage, path: str) -> None:
    async with api_over(stage, pool(1)) as api:
        await api.running()
        for cursor in WRONG:
            answer = await api.client.get(with_query(path, cursor=cursor), headers=api.operator)
            problem = assert_problem(answer, 422, "cursor")
            assert problem["errors"][0]["field"] == "cursor"


async def test_cursor_of_another_list_is_refused(stage: Stage) -> None:
    async with api_over(stage, pool(1)) as api:
        await api.running()
        await api.create()
        await api.create()
        bots = (await page(api, "/v1/bots", limit=1))["nextCursor"]
        events = (await page(api, "/v1/bots/1/events", limit=1))["nextCursor"]
        assert bots and events
        for path, cursor in (
            ("/v1/queue", bots),
            ("/v1/bots/1/events", bots),
            ("/v1/bots", events),
            ("/v1/bots/1/events?order=newest", events),
            ("/v1/bots?containerId=x", bots),
        ):
            answer = await api.client.get(with_query(path, cursor=cursor), headers=api.operator)
            assert_problem(answer, 422, "cursor")
        missing = await api.client.get(f"/v1/bots/99/events?cursor={events}", headers=api.operator)
        assert_problem(missing, 404, "bot 99")


@pytest.mark.parametrize("path", LISTS)
async def test_bad_limit_is_refused(stage: Stage, path: str) -> None:
    async with api_over(stage, pool(1)) as api:
        await api.running()
        for limit in ("0", "501", "-1", "1.0", "x", "9" * 30):
            answer = await api.client.get(with_query(path, limit=limit), headers=api.operator)
            assert_problem(answer, 422, "limit")
