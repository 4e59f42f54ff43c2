"""Tenants over HTTP: a user's key sees and changes only the bots of its own tenant."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio

from tests.support.clock import Clock
from tests.support.http_server import LINK, Api, api_over, assert_problem, bearer, unchanged
from tests.support.postgres import TestPostgres
from tests.support.replicas import TEAMS, Stage, pool

pytestmark = pytest.mark.asyncio(loop_scope="module")


class Team:
    """A tenant's key, and a bot in a slot and one in the queue of that tenant."""

    def __init__(self, api: Api, name: str, secret: str) -> None:
        self.api = api
        self.name = name
        self.headers = bearer(secret)
        self.running: dict[str, Any] = {}
        self.queued: dict[str, Any] = {}

    async def send(self, **fields: Any) -> dict[str, Any]:
        body = {"meetingUrl": LINK, "botDisplayName": f"{self.name} bot", **fields}
        answer = await self.api.client.post("/v1/bots", json=body, headers=self.headers)
        assert answer.status_code == 201, answer.text
        bot: dict[str, Any] = answer.json()["bot"]
        return bot

    async def get(self, path: str, **query: Any) -> httpx.Response:
        return await self.api.client.get(path, params=query, headers=self.headers)

    async def bots(self, **query: Any) -> list[int]:
        return [bot["id"] for bot in (await self.get("/v1/bots", **query)).json()["bots"]]


async def new_team(api: Api, name: str) -> Team:
    if name != "default":
        made = await api.client.post("/v1/tenants", json={"name": name}, headers=api.admin)
        assert made.status_code == 201, made.text
    body = {"name": f"{name} key", "tenant": name}
    key = (await api.client.post("/v1/keys", json=body, headers=api.admin)).json()
    assert (key["key"]["tenant"], key["key"]["scope"]) == (name, "user")
    return Team(api, name, key["secret"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(postgres: TestPostgres, template: str) -> AsyncIterator[Api]:
    url = postgres.create_database(template)
    async with (
        Stage.set(url, Clock(url)) as stage,
        api_over(stage, pool(3), pool(0, TEAMS)) as api,
    ):
        yield api
    postgres.drop_database(url)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def teams(api: Api) -> list[Team]:
    """Three tenants, the default one too, each with a running and a queued bot."""
    teams = [await new_team(api, name) for name in ("acme", "default", "globex")]
    for team in teams:
        team.running = await team.send()
        team.queued = await team.send(platform="teams")
    await api.stage.settle(api.replica)
    return teams


def others(teams: list[Team], team: Team) -> list[Team]:
    return [other for other in teams if other is not team]


async def test_bot_shows_its_tenant_and_creator(api: Api, teams: list[Team]) -> None:
    for team in teams:
        bot = (await team.get(f"/v1/bots/{team.running['id']}")).json()["bot"]
        assert bot["tenant"] == team.name
        assert bot["createdBy"]["keyName"] == f"{team.name} key"


async def test_lists_searches_and_lookups_show_own_bots_only(api: Api, teams: list[Team]) -> None:
    for team in teams:
        own = {team.running["id"], team.queued["id"]}
        assert set(await team.bots()) == own
        assert set(await team.bots(search="bot")) == own
        assert await team.bots(status="QUEUED") == [team.queued["id"]]
        slot = (await team.get(f"/v1/bots/{team.running['id']}")).json()["bot"]
        assert await team.bots(slotName=slot["slotName"]) == [team.running["id"]]
        assert await team.bots(containerId=slot["containerId"]) == [team.running["id"]]
        for other in others(teams, team):
            assert await other.bots(slotName=slot["slotName"]) == []
            assert await other.bots(containerId=slot["containerId"]) == []
            assert team.running["id"] not in await other.bots(search=str(team.running["id"]))
            assert await other.bots(search=f"{team.name} bot") == []


async def test_pages_show_own_bots_only(api: Api, teams: list[Team]) -> None:
    for team in teams:
        first = (await team.get("/v1/bots", limit=1)).json()
        second = (await team.get("/v1/bots", limit=1, cursor=first["nextCursor"])).json()
        listed = [bot["id"] for page in (first, second) for bot in page["bots"]]
        assert listed == [team.queued["id"], team.running["id"]]
        assert second.get("nextCursor") is None
        # The cursor of another tenant is a position, not a right.
        for other in others(teams, team):
            page = (await other.get("/v1/bots", cursor=first["nextCursor"])).json()["bots"]
            assert {bot["tenant"] for bot in page} <= {other.name}


async def test_queue_shows_own_bots_only(api: Api, teams: list[Team]) -> None:
    for team in teams:
        listed = (await team.get("/v1/queue")).json()["queue"]
        assert [entry["botId"] for entry in listed] == [team.queued["id"]]
        assert [entry["position"] for entry in listed] == [1]


async def test_bot_of_another_tenant_does_not_exist(api: Api, teams: list[Team]) -> None:
    for team in teams:
        for other in others(teams, team):
            with unchanged(api.stage.url):
                for bot in (team.running["id"], team.queued["id"]):
                    for path in ("", "/events", "/events?order=newest", "/timeline", "/logs"):
                        answer = await other.get(f"/v1/bots/{bot}{path}")
                        assert_problem(answer, 404, f"no bot {bot}")
                    stopped = await api.client.delete(f"/v1/bots/{bot}", headers=other.headers)
                    assert_problem(stopped, 404, f"no bot {bot}")
        for path in ("", "/events", "/events?order=newest", "/timeline", "/logs"):
            assert (await team.get(f"/v1/bots/{team.running['id']}{path}")).status_code == 200


async def test_operators_see_all_tenants_and_filter(api: Api, teams: list[Team]) -> None:
    everything = {team.running["id"] for team in teams} | {team.queued["id"] for team in teams}
    for headers in (api.operator, api.admin):
        listed = (await api.client.get("/v1/bots", headers=headers)).json()["bots"]
        assert {bot["id"] for bot in listed} == everything
        for team in teams:
            query = f"tenant={team.name}"
            filtered = await api.client.get(f"/v1/bots?{query}", headers=headers)
            own = [team.queued["id"], team.running["id"]]
            assert [bot["id"] for bot in filtered.json()["bots"]] == own
            queue = await api.client.get(f"/v1/queue?{query}", headers=headers)
            assert [entry["botId"] for entry in queue.json()["queue"]] == [team.queued["id"]]
            path = f"/v1/bots/{team.running['id']}"
            assert (await api.client.get(path, headers=headers)).status_code == 200
    unknown = await api.client.get("/v1/bots?tenant=absent", headers=api.operator)
    problem = assert_problem(unknown, 422, "no tenant 'absent'")
    assert problem["errors"][0]["field"] == "tenant"


async def test_user_can_name_only_its_own_tenant(api: Api, teams: list[Team]) -> None:
    """Another tenant and a missing one give the same answer, so names of tenants do not leak."""
    acme, *_ = teams
    assert set(await acme.bots(tenant="acme")) == {acme.running["id"], acme.queued["id"]}
    for path in ("/v1/bots", "/v1/queue"):
        taken, missing = await acme.get(path, tenant="globex"), await acme.get(path, tenant="none")
        assert_problem(taken, 422, "no tenant 'globex'")
        assert taken.text.replace("globex", "none") == missing.text


async def test_idempotency_keys_of_two_tenants_are_independent(api: Api, teams: list[Team]) -> None:
    bots = []
    for team in (teams[0], teams[2]):
        for expected in (201, 200):
            body = {"meetingUrl": LINK, "platform": "teams"}
            headers = {**team.headers, "Idempotency-Key": "shared"}
            answer = await api.client.post("/v1/bots", json=body, headers=headers)
            assert answer.status_code == expected
            bots.append(answer.json()["bot"])
    assert bots[0]["id"] == bots[1]["id"] != bots[2]["id"] == bots[3]["id"]
    assert [bot["tenant"] for bot in bots] == ["acme", "acme", "globex", "globex"]
    for bot, team in ((bots[0], teams[0]), (bots[2], teams[2])):
        await api.client.delete(f"/v1/bots/{bot['id']}", headers=team.headers)


async def test_tenants_are_created_listed_and_changed(api: Api, teams: list[Team]) -> None:
    body = {"name": "initech", "weight": 2, "maxLive": 5, "postsPerMinute": 60}
    made = await api.client.post("/v1/tenants", json=body, headers=api.admin)
    assert made.status_code == 201
    created = made.json()["tenant"]
    assert {name: created[name] for name in body} == body
    assert (created["maxQueued"], created["live"], created["queued"]) == (None, 0, 0)
    again = await api.client.post("/v1/tenants", json=body, headers=api.admin)
    assert_problem(again, 409, "'initech' exists already")

    path = "/v1/tenants/initech"
    changed = await api.client.patch(
        path, json={"maxQueued": 7, "maxLive": None}, headers=api.admin
    )
    expected = {**created, "maxQueued": 7, "maxLive": None}
    assert changed.json()["tenant"] == expected, "absent fields stay"
    missing = await api.client.patch("/v1/tenants/absent", json={"weight": 1}, headers=api.admin)
    assert_problem(missing, 404, "no tenant absent")

    listed = (await api.client.get("/v1/tenants", headers=api.operator)).json()["tenants"]
    assert [tenant["name"] for tenant in listed] == ["default", "acme", "globex", "initech"]
    assert [(tenant["live"], tenant["queued"]) for tenant in listed] == [
        (1, 1), (1, 1), (1, 1), (0, 0),
    ]  # fmt: skip
    assert listed[3] == expected


async def test_quotas_refuse_with_429_and_name_the_limit(api: Api) -> None:
    body = {"name": "limited", "maxQueued": 2, "postsPerMinute": 4}
    await api.client.post("/v1/tenants", json=body, headers=api.admin)
    key = {"name": "first", "tenant": "limited"}
    secrets = [
        (await api.client.post("/v1/keys", json=key, headers=api.admin)).json()["secret"]
        for _ in range(2)
    ]
    sent = {"meetingUrl": LINK, "platform": "teams"}

    async def post(n: int) -> httpx.Response:
        return await api.client.post("/v1/bots", json=sent, headers=bearer(secrets[n % 2]))

    api.stage.clock.freeze("2026-01-05T10:00:00Z")
    answers = [await post(n) for n in range(6)]
    assert [answer.status_code for answer in answers] == [201, 201, 429, 429, 429, 429]
    limits = ["maxQueued", "maxQueued", "postsPerMinute", "postsPerMinute"]
    for answer, limit in zip(answers[2:], limits, strict=True):
        problem = assert_problem(answer, 429, limit)
        assert problem["limit"] == f"the tenant's {limit}"
        assert int(answer.headers["retry-after"]) >= 1
    listed = await api.client.get("/v1/bots?tenant=limited", headers=api.operator)
    assert len(listed.json()["bots"]) == 2


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "name"),
        ({"name": "Sales"}, "name"),
        ({"name": "a" * 41}, "name"),
        ({"name": "a\n"}, "name"),
        ({"name": "x", "weight": 0}, "weight"),
        ({"name": "x", "weight": 1001}, "weight"),
        ({"name": "x", "weight": 1.5}, "weight"),
        ({"name": "x", "weight": None}, "weight"),
        ({"name": "x", "maxLive": -1}, "maxLive"),
        ({"name": "x", "maxQueued": 2**31}, "maxQueued"),
        ({"name": "x", "postsPerMinute": 0}, "postsPerMinute"),
        ({"name": "x", "id": 7}, "id"),
    ],
)
async def test_invalid_tenant_is_refused(api: Api, body: dict[str, Any], field: str) -> None:
    with unchanged(api.stage.url):
        answer = await api.client.post("/v1/tenants", json=body, headers=api.admin)
        problem = assert_problem(answer, 422)
        assert [error["field"] for error in problem["errors"]] == [field]


async def test_key_of_an_unknown_tenant_is_refused(api: Api) -> None:
    with unchanged(api.stage.url):
        body = {"name": "x", "tenant": "absent"}
        answer = await api.client.post("/v1/keys", json=body, headers=api.admin)
        assert_problem(answer, 422, "no tenant 'absent'", "botpool tenant create")
