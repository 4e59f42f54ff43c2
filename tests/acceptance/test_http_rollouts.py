"""`/v1/pools/{platform}/rollouts`: start, list, promote and roll back, for operators only."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from tests.support.http_server import Api, api_over, assert_problem
from tests.support.replicas import Stage, pool

PATH = "/v1/pools/google-meet/rollouts"


@pytest.fixture
async def api(stage: Stage) -> AsyncIterator[Api]:
    async with api_over(stage, pool(2, image="bot:1")) as api:
        yield api


async def post(api: Api, path: str = PATH, **body: Any) -> httpx.Response:
    return await api.client.post(path, json=body or None, headers=api.operator)


async def test_rollout_starts_once_and_is_promoted_and_rolled_back(api: Api) -> None:
    answer = await post(api, image="bot:2", canaryShare=0.2, bakeMs=60_000)
    assert answer.status_code == 201, answer.text
    rollout = answer.json()["rollout"]
    assert (rollout["state"], rollout["canaryShare"], rollout["bakeMs"]) == ("pulling", 0.2, 60_000)
    assert (rollout["old"]["image"], rollout["new"]["image"]) == ("bot:1", "bot:2")
    assert (rollout["comparison"], rollout["reason"], rollout["endedAt"]) == (None, None, None)
    problem = assert_problem(await post(api, image="bot:3"), 409)
    assert "bot:2" in problem["detail"]
    promoted = (await post(api, f"{PATH}/promote")).json()["rollout"]
    assert promoted["state"] == "promoted" and promoted["reason"].startswith("Promoted by ")
    shown = (await api.client.get("/v1/pools/google-meet", headers=api.operator)).json()["pool"]
    assert (shown["image"], shown["configuredImage"]) == ("bot:2", "bot:1")
    assert_problem(await post(api, f"{PATH}/promote"), 409)
    assert (await post(api, f"{PATH}/rollback")).json()["rollout"]["state"] == "rolled_back"
    listed = (await api.client.get(PATH, headers=api.operator)).json()["rollouts"]
    assert [each["id"] for each in listed] == [rollout["id"]]
    audit = await api.client.get("/v1/audit", headers=api.operator)
    actions = [each["action"] for each in audit.json()["entries"] if "rollout" in each["action"]]
    assert actions == ["rollout.rollback", "rollout.promote", "rollout.start"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"image": "bot:1"}, 409),
        ({"image": ""}, 422),
        ({"image": "a b"}, 422),
        ({}, 422),
        ({"image": "bot:2", "canaryShare": 0.6}, 422),
        ({"image": "bot:2", "canaryShare": 0}, 422),
        ({"image": "bot:2", "bakeMs": -1}, 422),
        ({"image": "bot:2", "tolerance": 0.9}, 422),
        ({"image": "bot:2", "unknown": 1}, 422),
    ],
)
async def test_bad_request_changes_nothing(api: Api, body: dict[str, Any], status: int) -> None:
    answer = await api.client.post(PATH, json=body, headers=api.operator)
    assert_problem(answer, status)
    assert (await api.client.get(PATH, headers=api.operator)).json() == {"rollouts": []}


async def test_rollout_of_an_unknown_pool_and_without_a_rollout(api: Api) -> None:
    unknown = "/v1/pools/nowhere/rollouts"
    assert_problem(await post(api, unknown, image="bot:2"), 404)
    assert_problem(await api.client.get(unknown, headers=api.operator), 404)
    for action in ("promote", "rollback"):
        assert_problem(await post(api, f"{PATH}/{action}"), 409)
