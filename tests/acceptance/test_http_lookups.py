"""The seeds' lookups: the bot of a container, and the slot of a bot or a container."""

from typing import Any

from botpool.domain.errors import BackendRefused
from botpool.domain.ids import BotId
from tests.support.http_server import Api, api_over, assert_problem
from tests.support.replicas import Stage, pool


async def get(api: Api, path: str, **query: Any) -> Any:
    answer = await api.client.get(path, params=query, headers=api.operator)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def ids(api: Api, **query: Any) -> list[int]:
    return [bot["id"] for bot in (await get(api, "/v1/bots", **query))["bots"]]


async def run_to_its_end(api: Api, stage: Stage, bot_id: int) -> None:
    done = await api.client.post(
        f"/v1/agent/bots/{bot_id}/status", json={"status": "DONE"}, headers=api.agent(bot_id)
    )
    assert done.status_code == 200, done.text
    await stage.settle(api.replica)


async def test_container_leads_to_its_current_bot_first(stage: Stage) -> None:
    """Bot 2 waits longer than bot 3, which has a better priority: bot 2 is the last in the slot."""
    async with api_over(stage, pool(1)) as api:
        await api.create()
        await stage.settle(api.replica)
        await api.create()
        await api.create(priority=1, botDisplayName="Needle")
        (slot,) = stage.slots()
        for bot_id in (1, 3):
            await run_to_its_end(api, stage, bot_id)
        container = slot["container_id"]
        assert stage.slots()[0]["assigned_bot_id"] == 2
        assert await ids(api, containerId=container) == [2, 3, 1]
        assert await ids(api, slotName=slot["slot_name"]) == [2, 3, 1]
        assert await ids(api, containerId=container, slotName=slot["slot_name"]) == [2, 3, 1]
        assert await ids(api, containerId=container, status="DONE") == [3, 1]
        assert await ids(api, containerId=container, platform="teams") == []
        assert await ids(api, containerId=container, search="needle") == [3]
        assert await ids(api, containerId=container, slotName="pool-google-meet-002") == []


async def test_history_answers_after_release(stage: Stage) -> None:
    async with api_over(stage, pool(1)) as api:
        await api.create()
        await stage.settle(api.replica)
        (slot,) = stage.slots()
        await run_to_its_end(api, stage, 1)
        assert stage.slots()[0]["assigned_bot_id"] is None
        assert await ids(api, containerId=slot["container_id"]) == [1]


async def test_history_answers_for_container_that_was_replaced(stage: Stage) -> None:
    async with api_over(stage, pool(1)) as api:
        await api.create()
        await stage.settle(api.replica)
        (former,) = stage.slots()
        stage.backend.lose(former["container_id"])
        await run_to_its_end(api, stage, 1)
        await api.create()
        await stage.settle(api.replica)
        (slot,) = stage.slots()
        assert slot["container_id"] != former["container_id"]
        assert await ids(api, containerId=former["container_id"]) == [1]
        assert await ids(api, containerId=slot["container_id"]) == [2]
        assert await ids(api, slotName=slot["slot_name"]) == [2, 1]


async def test_bots_of_container_are_paged(stage: Stage) -> None:
    async with api_over(stage, pool(1)) as api:
        for bot_id in range(1, 6):
            await api.create()
            await stage.settle(api.replica)
            await run_to_its_end(api, stage, bot_id)
        container = stage.slots()[0]["container_id"]
        pages, cursor = [], None
        while True:
            query = {"cursor": cursor} if cursor else {}
            page = await get(api, "/v1/bots", containerId=container, limit=2, **query)
            pages.append([bot["id"] for bot in page["bots"]])
            if (cursor := page.get("nextCursor")) is None:
                break
        assert pages == [[5, 4], [3, 2], [1]]


async def test_retried_bot_is_listed_once(stage: Stage) -> None:
    async with api_over(stage, pool(1)) as api:
        stage.backend.fail("start", BackendRefused("image", "is not there"))
        await api.create()
        await stage.settle(api.replica)
        (slot,) = stage.slots()
        assert stage.bot(BotId(1))["attempts"] == 2
        assert await ids(api, slotName=slot["slot_name"]) == [1]
        assert await ids(api, containerId=slot["container_id"]) == [1]


async def test_slot_is_found_by_container_and_by_bot(stage: Stage) -> None:
    async with api_over(stage, pool(2)) as api:
        for _ in range(2):
            await api.create()
        await stage.settle(api.replica)
        for slot in stage.slots():
            container, bot = slot["container_id"], slot["assigned_bot_id"]
            for query in ({"containerId": container}, {"botId": bot}):
                found = (await get(api, "/v1/slots", **query))["slots"]
                assert [each["id"] for each in found] == [slot["id"]]
        first, second = stage.slots()
        both = {"containerId": first["container_id"], "botId": second["assigned_bot_id"]}
        assert (await get(api, "/v1/slots", **both))["slots"] == []
        await run_to_its_end(api, stage, 1)
        assert (await get(api, "/v1/slots", botId=1))["slots"] == [], "it has no slot any more"
        assert len((await get(api, "/v1/slots", containerId=first["container_id"]))["slots"]) == 1
        assert (await get(api, "/v1/slots", botId=2, status="idle"))["slots"] == []


async def test_unknown_container_leads_nowhere(stage: Stage) -> None:
    async with api_over(stage, pool(1)) as api:
        assert await ids(api, containerId="nowhere") == []
        assert await ids(api, slotName="pool-google-meet-99999999999") == []
        assert (await get(api, "/v1/slots", containerId="nowhere"))["slots"] == []
        assert (await get(api, "/v1/slots", botId=77))["slots"] == []


async def test_bad_lookups_are_refused(stage: Stage) -> None:
    async with api_over(stage, pool(1)) as api:
        for path in (
            "/v1/bots?containerId=",
            "/v1/bots?containerId=%00",
            "/v1/bots?slotName=",
            "/v1/slots?botId=0",
            "/v1/slots?botId=x",
            "/v1/slots?containerId=" + "x" * 256,
        ):
            answer = await api.client.get(path, headers=api.operator)
            assert_problem(answer, 422)
