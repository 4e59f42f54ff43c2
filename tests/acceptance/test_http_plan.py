"""`GET /v1/pools/{platform}/plan`: replays the recorded bots of a pool."""

import tomllib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.support.http_server import Api, api_over, assert_problem
from tests.support.replicas import Stage, pool


@pytest.fixture
async def api(stage: Stage) -> AsyncIterator[Api]:
    async with api_over(stage, pool(2)) as api:
        yield api


async def plan(api: Api, **query: Any) -> dict[str, Any]:
    answer = await api.client.get("/v1/pools/google-meet/plan", params=query, headers=api.operator)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["plan"]
    return found


async def test_plan_of_a_pool_without_bots_says_so(api: Api) -> None:
    found = await plan(api)
    assert found["bots"] == 0
    assert "no bots" in found["advice"]


async def test_plan_compares_policies_with_settings_to_paste(api: Api) -> None:
    await api.running()
    found = await plan(api, replayMs=3_600_000, slo=0.5, withinMs=60_000)
    assert (found["bots"], found["slo"], found["withinMs"]) == (1, 0.5, 60_000)
    names = [policy["name"] for policy in found["policies"]]
    assert names[:3] == ["recorded", "as configured", "no floors"]
    assert found["recommended"] in names
    for policy in found["policies"][1:]:
        settings = tomllib.loads(policy["settings"])["pools"]["google-meet"]["warm"]
        assert settings["hot"] >= 0


@pytest.mark.parametrize(
    "query",
    [
        {"slo": "2"},
        {"slo": "nan"},
        {"withinMs": "0"},
        {"replayMs": "1"},
        {"timezone": "Mars/Olympus"},
        {"timezone": "../../etc/passwd"},
        {"timezone": "x\0"},
    ],
)
async def test_plan_refuses_bad_parameters(api: Api, query: dict[str, str]) -> None:
    answer = await api.client.get("/v1/pools/google-meet/plan", params=query, headers=api.operator)
    assert_problem(answer, 422)


async def test_plan_of_an_unknown_pool_is_not_found(api: Api) -> None:
    answer = await api.client.get("/v1/pools/webex/plan", headers=api.operator)
    assert_problem(answer, 404)
