"""Every operation of the OpenAPI document, called by every kind of caller.

The expected response follows from `x-botpool-scope` and `x-botpool-tenant` of the operation, so
the matrix covers new operations without a change here.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import pytest_asyncio

from botpool.api.access import SCOPE, TENANT
from botpool.domain.callers import SCOPES
from botpool.domain.ids import PoolName
from botpool.domain.policy import Policy
from tests.support.clock import Clock
from tests.support.http_server import LINK, Api, api_over, bearer, contents
from tests.support.openapi_samples import body_of, operations, sample
from tests.support.postgres import TestPostgres
from tests.support.replicas import TEAMS, Stage, pool

pytestmark = pytest.mark.asyncio(loop_scope="module")

PUBLIC = {("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/metrics"), ("DELETE", "/v1/session")}
"""The only operations that need no key."""
DRAINED = PoolName("zoom")
MARK = "only-acme-may-see-this"
STREAM_S = 60.0

Operation = Mapping[str, Any]


@dataclass(kw_only=True)
class Matrix:
    """Two tenants, a caller of each kind, and bots of the tenant acme."""

    api: Api
    document: dict[str, Any]
    callers: dict[str, dict[str, str]] = field(default_factory=dict)
    running: dict[str, Any] = field(default_factory=dict)
    slot_id: int = 0

    async def send_bot(self) -> dict[str, Any]:
        """A queued bot of acme."""
        body = {"meetingUrl": LINK, "platform": "teams", "botDisplayName": MARK}
        answer = await self.api.client.post("/v1/bots", json=body, headers=self.callers["acme"])
        assert answer.status_code == 201, answer.text
        bot: dict[str, Any] = answer.json()["bot"]
        return bot

    async def new_key(self, name: str, **fields: Any) -> tuple[int, dict[str, str]]:
        made = await self.api.client.post(
            "/v1/keys", json={"name": name, **fields}, headers=self.api.admin
        )
        assert made.status_code == 201, made.text
        return made.json()["key"]["id"], bearer(made.json()["secret"])

    async def new_webhook(self) -> int:
        """A webhook of acme."""
        body = {"url": "http://127.0.0.1:1/hook", "description": MARK}
        path, headers = "/v1/webhooks", self.callers["acme"]
        listed = await self.api.client.get(path, headers=headers)
        for each in listed.json()["webhooks"]:
            await self.api.client.delete(f"{path}/{each['id']}", headers=headers)
        made = await self.api.client.post(path, json=body, headers=headers)
        assert made.status_code == 201, made.text
        webhook_id: int = made.json()["webhook"]["id"]
        return webhook_id

    async def path_of(self, path: str, operation: Operation) -> str:
        """The path with parameters that belong to acme, where they belong to a tenant."""
        if path.startswith("/v1/agent/"):
            path = path.replace("{id}", str(self.running["id"]))
        elif path.startswith("/v1/bots/{id}"):
            path = path.replace("{id}", str((await self.send_bot())["id"]))
        elif path.startswith("/v1/slots/{id}"):
            path = path.replace("{id}", str(self.slot_id))
        elif path.startswith("/v1/webhooks/{id}"):
            path = path.replace("{id}", str(await self.new_webhook()))
        elif path.startswith("/v1/keys/{id}"):
            path = path.replace("{id}", str((await self.new_key("spare"))[0]))
        path = path.replace("/tenants/{name}", "/tenants/acme").replace("{platform}", DRAINED)
        for each in operation.get("parameters", ()):
            if each["in"] == "path":
                value = sample(each["schema"], self.document)
                path = path.replace(f"{{{each['name']}}}", str(value))
        assert "{" not in path, f"tell path_of which value {path} takes"
        return path

    def query_of(self, operation: Operation) -> dict[str, str]:
        """Values for the required parameters."""
        known = {"containerId": self.running["containerId"]}
        return {
            each["name"]: known[each["name"]]
            for each in operation.get("parameters", ())
            if each["in"] == "query" and each.get("required")
        }

    async def call(
        self, method: str, path: str, operation: Operation, caller: str, **query: str
    ) -> httpx.Response:
        body, kind = body_of(operation, self.document)
        headers = self.callers[caller] | kind
        query = self.query_of(operation) | query
        if "text/event-stream" in operation["responses"].get("200", {}).get("content", {}):
            return await self._open_stream(path, headers)
        answer = await self.api.client.request(
            method, path, params=query, content=body, headers=headers
        )
        self.api.client.cookies.clear()  # of POST /v1/session
        return answer

    async def _open_stream(self, path: str, headers: Mapping[str, str]) -> httpx.Response:
        """Return the response without the stream's events, which do not end."""
        begun: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        messages = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive() -> dict[str, Any]:
            if (message := next(messages, None)) is not None:
                return message
            await begun
            return {"type": "http.disconnect"}

        async def send(message: Mapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                begun.set_result(message["status"])

        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET",
            "path": path, "raw_path": path.encode(), "query_string": b"", "scheme": "http",
            "headers": [(b"host", b"botpool.test")]
            + [(name.lower().encode(), value.encode()) for name, value in headers.items()],
        }  # fmt: skip
        async with asyncio.timeout(STREAM_S):
            await self.api.app(scope, receive, send)
        return httpx.Response(begun.result())


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def matrix(postgres: TestPostgres, template: str) -> AsyncIterator[Matrix]:
    url = postgres.create_database(template)
    pools = (pool(1), pool(0, TEAMS), pool(0, DRAINED))
    policy = Policy(allow_private_webhooks=True)
    async with Stage.set(url, Clock(url)) as stage, api_over(stage, *pools, policy=policy) as api:
        made = Matrix(api=api, document=api.app.openapi())
        for name in ("acme", "globex"):
            await api.client.post("/v1/tenants", json={"name": name}, headers=api.admin)
            made.callers[name] = (await made.new_key(name, tenant=name))[1]
        revoked, made.callers["revoked key"] = await made.new_key("revoked", scope="admin")
        await api.client.delete(f"/v1/keys/{revoked}", headers=api.admin)
        body = {"meetingUrl": LINK, "botDisplayName": MARK}
        sent = await api.client.post("/v1/bots", json=body, headers=made.callers["acme"])
        await api.stage.settle(api.replica)
        path = f"/v1/bots/{sent.json()['bot']['id']}"
        made.running = (await api.client.get(path, headers=api.operator)).json()["bot"]
        (slot,) = stage.slots()
        made.slot_id = slot["id"]
        made.callers |= {
            "no key": {},
            "operator": api.operator,
            "admin": api.admin,
            "agent": api.agent(made.running["id"]),
        }
        yield made
    postgres.drop_database(url)


SCOPE_OF = {"acme": "user", "globex": "user", "operator": "operator", "admin": "admin"}


def refusal(caller: str, scope: str) -> int | None:
    """The status with which an operation of this scope refuses a caller; None if it may call."""
    if scope == "none":
        return None
    if scope == "standby":
        return 401  # None of the callers is a standby.
    if scope == "agent":
        return None if caller == "agent" else 401
    if caller not in SCOPE_OF:
        return 401
    return 403 if SCOPES.index(SCOPE_OF[caller]) < SCOPES.index(scope) else None


def names_a_bot(path: str) -> bool:
    return path.startswith("/v1/bots/{id}")


def belongs_to_acme(path: str) -> bool:
    """Whether the path names a record of acme, which for another tenant does not exist."""
    return names_a_bot(path) or path.startswith("/v1/webhooks/{id}")


def is_part(path: str, answer: httpx.Response) -> bool:
    """Whether a 404 is about a part of a record, such as a screenshot, and not about the record."""
    return path.count("{") > 1 and "no bot" not in answer.text


async def test_every_operation_documents_its_scope_and_tenant_rule(matrix: Matrix) -> None:
    undocumented = [
        (method, path)
        for method, path, operation in operations(matrix.document)
        if operation.get(SCOPE) not in (*SCOPES, "agent", "standby", "none")
        or operation.get(TENANT) not in ("own", "all", "none")
    ]
    assert not undocumented, "see api/access.py"
    public = {
        (method, path)
        for method, path, operation in operations(matrix.document)
        if operation[SCOPE] == "none"
    }
    assert public <= PUBLIC, "operations without a key"
    for method, path, operation in operations(matrix.document):
        if belongs_to_acme(path):
            assert (operation[SCOPE], operation[TENANT]) == ("user", "own"), (method, path)


async def test_callers_without_the_right_get_nothing_and_change_nothing(matrix: Matrix) -> None:
    deviations, cells = [], 0
    for method, path, operation in operations(matrix.document):
        target = await matrix.path_of(path, operation)
        before = contents(matrix.api.stage.url)
        for caller in matrix.callers:
            expected = refusal(caller, operation[SCOPE])
            if expected is None and belongs_to_acme(path) and caller == "globex":
                expected = 404
            if expected is None:
                continue
            cells += 1
            answer = await matrix.call(method, target, operation, caller)
            if answer.status_code != expected or MARK in answer.text:
                deviations.append((method, path, caller, expected, answer.status_code))
        if contents(matrix.api.stage.url) != before:
            deviations.append((method, path, "changed the database", 0, 0))
    assert not deviations
    assert cells > 100


async def test_callers_with_the_right_are_served(matrix: Matrix) -> None:
    deviations, cells = [], 0
    for method, path, operation in operations(matrix.document):
        documented = {int(status) for status in operation["responses"]}
        for caller in matrix.callers:
            if refusal(caller, operation[SCOPE]) is not None:
                continue
            if belongs_to_acme(path) and caller == "globex":
                continue
            cells += 1
            answer = await matrix.call(
                method, await matrix.path_of(path, operation), operation, caller
            )
            served = answer.status_code in documented and answer.status_code < 500
            if (
                not served
                or answer.status_code in (401, 403, 422)
                or (answer.status_code == 404 and not is_part(path, answer))
            ):
                deviations.append((method, path, caller, answer.status_code, answer.text[:300]))
    assert not deviations
    assert cells > 50


async def test_lists_show_bots_of_the_own_tenant_only(matrix: Matrix) -> None:
    """Also with each lookup: a filter narrows what a caller sees, and never widens it."""
    lookups = {
        "containerId": matrix.running["containerId"],
        "slotName": matrix.running["slotName"],
        "search": MARK,
        "botId": str(matrix.running["id"]),
        "tenant": "acme",
    }
    bot = await matrix.send_bot()
    await matrix.new_webhook()
    lists = [
        (path, operation)
        for method, path, operation in operations(matrix.document)
        if (method, operation[TENANT], operation[SCOPE]) == ("GET", "own", "user")
        and "application/json" in operation["responses"]["200"]["content"]
        and not belongs_to_acme(path)
    ]
    assert {"/v1/bots", "/v1/queue"} <= {path for path, _ in lists}
    for path, operation in lists:
        known = {each["name"] for each in operation.get("parameters", ())} & set(lookups)
        for query in ({}, *({name: lookups[name]} for name in known)):
            other = await matrix.call("GET", path, operation, "globex", **query)
            for leaked in (MARK, bot["correlationId"], f'"botId":{bot["id"]},'):
                assert leaked not in other.text, (path, query)
        for caller in ("acme", "operator", "admin"):
            own = await matrix.call("GET", path, operation, caller)
            assert MARK in own.text or f'"botId":{bot["id"]},' in own.text, (path, caller)


async def test_created_bots_belong_to_the_tenant_of_the_key(matrix: Matrix) -> None:
    operation = matrix.document["paths"]["/v1/bots"]["post"]
    for caller in SCOPE_OF:
        answer = await matrix.call("POST", "/v1/bots", operation, caller)
        assert answer.status_code == 201, answer.text
        expected = caller if caller in ("acme", "globex") else "default"
        assert answer.json()["bot"]["tenant"] == expected
