"""A pool that the settings no longer contain is shown as removed and refuses new bots."""

from tests.support.http_server import LINK, api_over, assert_problem
from tests.support.replicas import TEAMS, Stage, pool


async def test_removed_pool_is_shown_and_refuses_bots(stage: Stage) -> None:
    await stage.replica(pool(1), pool(1, TEAMS))
    async with api_over(stage, pool(1)) as api:
        answer = await api.client.get("/v1/pools", headers=api.operator)
        found = {each["platform"]: each["removed"] for each in answer.json()["pools"]}
        assert found == {"google-meet": False, "teams": True}
        one = await api.client.get("/v1/pools/teams", headers=api.operator)
        assert one.json()["pool"]["removed"] is True
        body = {"meetingUrl": LINK, "platform": "teams"}
        refused = await api.client.post("/v1/bots", json=body, headers=api.user)
        assert_problem(refused, 422, "no pool 'teams' in the settings. Pools here: google-meet")
