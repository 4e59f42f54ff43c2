"""Both clients have every call of users, operators and admins in the OpenAPI document."""

import inspect
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, NamedTuple, cast

import httpx
import pytest

from botpool.api.app import create_app
from botpool.client import AsyncClient, Client
from botpool.engine.replica import Replica
from botpool.settings import Settings
from tests.support.openapi_samples import operations, response_of

URL, KEY = "http://botpool.test", "bpk_key"
AT = datetime(2026, 3, 1, 10, tzinfo=UTC)
PAGING = {"limit": 5, "cursor": "c"}
QUOTAS = {"weight": 2, "max_live": 1, "max_queued": 1, "max_booked": 1, "posts_per_minute": None}
AUDITED = {"actor": "a", "action": "b", "target": "c", "tenant": "d"}
BOTS = {
    "status": "DONE", "platform": "zoom", "search": "x", "container_id": "c",
    "slot_name": "s", "tenant": "t",
}  # fmt: skip
SLOTS = {"platform": "zoom", "status": "idle", "container_id": "c", "bot_id": 7}
PLAN = {"replay_s": 60, "slo": 0.9, "within_s": 5, "timezone": "UTC"}
NEW_BOT = {
    "display_name": "x", "platform": "zoom", "queue_timeout_ms": 1, "priority": 1, "bot_data": {},
    "join_at": AT, "expected_duration_ms": 1, "require_reservation": True,
    "idempotency_key": "k", "correlation_id": "c",
}  # fmt: skip


class Call(NamedTuple):
    """A call with every argument, and the operation that it should reach."""

    operation: str
    method: str
    args: tuple[Any, ...] = ()
    options: Mapping[str, Any] = {}


CALLS = [
    Call("POST /v1/bots", "create", ("https://x",), NEW_BOT),
    Call("GET /v1/bots", "bots", (), BOTS),
    Call("GET /v1/bots", "bots_page", (), {**BOTS, **PAGING}),
    Call("GET /v1/bots/{id}", "get", (7,)),
    Call(
        "PATCH /v1/bots/{id}", "update", (7,), {"join_at": AT, "priority": 1, "display_name": "x"}
    ),
    Call("DELETE /v1/bots/{id}", "stop", (7,)),
    Call("GET /v1/bots/{id}/events", "events", (7,)),
    Call("GET /v1/bots/{id}/events", "events_page", (7,), {"order": "newest", **PAGING}),
    Call("GET /v1/bots/{id}/timeline", "timeline", (7,)),
    Call("GET /v1/bots/{id}/logs", "logs", (7,), {"tail": 1, "follow": True}),
    Call("GET /v1/bots/{id}/artifacts", "artifacts", (7,)),
    Call("GET /v1/bots/{id}/screenshots", "screenshots", (7,)),
    Call("GET /v1/bots/{id}/screenshots/{number}", "screenshot", (7, 1)),
    Call("POST /v1/bots/{id}/commands", "command", (7, "chat", {"text": "x"})),
    Call("GET /v1/bots/{id}/commands", "commands", (7,)),
    Call("GET /v1/bots/{id}/commands", "commands_page", (7,), PAGING),
    Call("GET /v1/queue", "queue", (), {"platform": "zoom", "tenant": "t"}),
    Call("GET /v1/queue", "queue_page", (), {"platform": "zoom", "tenant": "t", **PAGING}),
    Call("GET /v1/slots", "slots", (), SLOTS),
    Call("GET /v1/slots", "slots_page", (), {**SLOTS, **PAGING}),
    Call("GET /v1/slots/{id}", "slot", (3,)),
    Call("GET /v1/slots/{id}/history", "slot_history", (3,)),
    Call("GET /v1/slots/{id}/history", "slot_history_page", (3,), PAGING),
    Call("GET /v1/slots/{id}/assignments", "slot_assignments", (3,)),
    Call("GET /v1/slots/{id}/assignments", "slot_assignments_page", (3,), PAGING),
    Call("POST /v1/slots/{id}/cordon", "cordon_slot", (3,)),
    Call("POST /v1/slots/{id}/uncordon", "uncordon_slot", (3,)),
    Call("POST /v1/slots/{id}/release", "release_slot", (3,), {"force": True, "bot_id": 7}),
    Call("POST /v1/slots/{id}/recover", "recover_slot", (3,)),
    Call("DELETE /v1/slots/{id}", "delete_slot", (3,), {"force": True}),
    Call("POST /v1/maintenance/recover", "recover"),
    Call("POST /v1/maintenance/cleanup", "cleanup", (), {"force": True}),
    Call("GET /v1/pools", "pools"),
    Call("GET /v1/pools/{platform}", "pool", ("zoom",)),
    Call("GET /v1/pools/{platform}/activity", "pool_activity", ("zoom",), {"minutes": 5}),
    Call("GET /v1/pools/{platform}/schedule", "pool_schedule", ("zoom",), {"hours": 5}),
    Call("GET /v1/pools/{platform}/plan", "plan", ("zoom",), PLAN),
    Call("POST /v1/pools/{platform}/drain", "drain_pool", ("zoom",)),
    Call("POST /v1/pools/{platform}/undrain", "undrain_pool", ("zoom",)),
    Call(
        "POST /v1/webhooks",
        "create_webhook",
        ("https://x",),
        {"events": ["bot.done"], "description": "x", "tenant": "t"},
    ),
    Call(
        "POST /v1/pools/{platform}/rollouts",
        "start_rollout",
        ("zoom", "bot:2"),
        {"canary_share": 0.1, "bake_ms": 1, "tolerance": 0.1, "cpus": 1.0, "memory_mb": 64},
    ),
    Call("GET /v1/pools/{platform}/rollouts", "rollouts", ("zoom",)),
    Call("POST /v1/pools/{platform}/rollouts/promote", "promote_rollout", ("zoom",)),
    Call("POST /v1/pools/{platform}/rollouts/rollback", "roll_back_rollout", ("zoom",)),
    Call("GET /v1/webhooks", "webhooks"),
    Call("GET /v1/webhooks/{id}", "webhook", (1,)),
    Call("DELETE /v1/webhooks/{id}", "delete_webhook", (1,)),
    Call("POST /v1/webhooks/{id}/rotate", "rotate_webhook", (1,), {"overlap_ms": 1}),
    Call("POST /v1/webhooks/{id}/test", "test_webhook", (1,), {"event": "bot.done"}),
    Call("GET /v1/webhooks/{id}/deliveries", "deliveries", (1,), {"status": "failed"}),
    Call("GET /v1/webhooks/{id}/deliveries", "deliveries_page", (1,), {"status": "x", **PAGING}),
    Call("POST /v1/webhooks/{id}/replay", "replay_webhook", (1,), {"event_id": "e", "since": AT}),
    Call("GET /v1/tenants", "tenants"),
    Call("POST /v1/tenants", "create_tenant", ("sales",), QUOTAS),
    Call("PATCH /v1/tenants/{name}", "change_tenant", ("sales",), QUOTAS),
    Call("GET /v1/keys", "keys"),
    Call(
        "POST /v1/keys",
        "create_key",
        ("ci",),
        {"scope": "user", "tenant": "t", "expires_in_ms": 1, "min_priority": 1},
    ),
    Call("POST /v1/keys/{id}/rotate", "rotate_key", (1,), {"overlap_ms": 1}),
    Call("DELETE /v1/keys/{id}", "revoke_key", (1,)),
    Call("GET /v1/audit", "audit", (), AUDITED),
    Call("GET /v1/audit", "audit_page", (), {**AUDITED, **PAGING}),
]
OTHER_METHODS = {"changes", "close", "wait", "wait_until_drained"}
"""`changes` reads `GET /v1/events`; the others combine calls. `test_client.py` tests them."""
NOT_IN_CLIENTS = {
    r"GET /v1/events": "`changes` reads it",
    r"\w+ /v1/agent/.*": "for containers: botpool.agent",
    r"\w+ /v1/session": "for browsers",
    r"GET /(healthz|readyz|metrics)": "for monitoring",
}


@cache
def document() -> dict[str, Any]:
    return create_app(cast("Replica", None), Settings()).openapi()


@cache
def described() -> dict[str, dict[str, Any]]:
    """Each operation of users, operators and admins by its method and path."""
    found = {f"{method} {path}": each for method, path, each in operations(document())}
    return {
        name: operation
        for name, operation in found.items()
        if not any(re.fullmatch(pattern, name) for pattern in NOT_IN_CLIENTS)
    }


class RecordingServer:
    """Answers one operation with the sample of the document, and records what it was sent."""

    def __init__(self, operation: str) -> None:
        self._operation = described()[operation]
        self.lines: set[str] = set()
        self.parameters: set[str] = set()
        self.fields: set[str] = set()

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.lines.add(f"{request.method} {request.url.path}")
        self.parameters |= set(request.url.params)
        self.fields |= set(json.loads(request.content)) if request.content else set()
        body = response_of(self._operation, document())
        if body is None:
            return httpx.Response(200, content=b"bytes")
        if "limit" in request.url.params and "cursor" not in request.url.params:
            body["nextCursor"] = "c"
        return httpx.Response(200, json=body)


def use(client: Client, call: Call) -> object:
    result = getattr(client, call.method)(*call.args, **call.options)
    return list(result) if isinstance(result, Iterator) else result


async def use_async(client: AsyncClient, call: Call) -> object:
    result = getattr(client, call.method)(*call.args, **call.options)
    return [each async for each in result] if isinstance(result, AsyncIterator) else await result


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.method)
async def test_both_clients_send_the_call_with_all_its_arguments(call: Call) -> None:
    server, async_server = RecordingServer(call.operation), RecordingServer(call.operation)
    with Client(URL, KEY, transport=httpx.MockTransport(server)) as client:
        result = use(client, call)
    async with AsyncClient(URL, KEY, transport=httpx.MockTransport(async_server)) as async_client:
        assert await use_async(async_client, call) == result
    assert result
    path = re.sub(r"{\w+}", "[^/]+", call.operation)
    assert all(re.fullmatch(path, line) for line in server.lines), server.lines
    assert vars(server).items() == vars(async_server).items()


@pytest.mark.parametrize("operation", described())
def test_client_offers_every_parameter_and_field_of_an_operation(operation: str) -> None:
    calls = [call for call in CALLS if call.operation == operation]
    assert calls, f"add {operation} to both clients, or to NOT_IN_CLIENTS with the reason"
    server = RecordingServer(operation)
    with Client(URL, KEY, transport=httpx.MockTransport(server)) as client:
        for call in calls:
            use(client, call)
    query = {each["name"] for each in described()[operation].get("parameters", ())
             if each["in"] == "query"}  # fmt: skip
    assert server.parameters == query
    assert server.fields == _body_fields(described()[operation])


def _body_fields(operation: Mapping[str, Any]) -> set[str]:
    schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    names = re.findall(r'#/components/schemas/(\w+)"', json.dumps(schema))
    return set(document()["components"]["schemas"][names[0]]["properties"]) if names else set()


def test_both_clients_have_the_same_methods() -> None:
    def public(kind: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(member).parameters)
            for name, member in inspect.getmembers(kind, callable)
            if not name.startswith("_")
        }

    assert public(Client) == public(AsyncClient)
    assert set(public(Client)) == {call.method for call in CALLS} | OTHER_METHODS
