"""Every answer against Coolify's published document; where it is wrong, the table says so.

The document requires no field, so that an empty object would pass: what an answer holds beyond it
is checked too. A line of the tables that is no longer true fails its test.
"""

import copy
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema_rs
import pytest

from botpool.emulators.coolify.endpoints import ENDPOINTS
from tests.backends.emulator.emulated_coolify import NO_LAG, Coolify, at, emulated

DOCUMENT = json.loads((Path(__file__).parent / "coolify-openapi.json").read_text())

CONTRADICTIONS = {
    ("GET /applications", 200): "build_pack is 'dockerimage', which its enum leaves out",
    ("GET /applications/{uuid}", 200): "build_pack is 'dockerimage', which its enum leaves out",
    ("GET /deployments/applications/{uuid}", 200): "an object with count and deployments",
}
CORRECTED: dict[tuple[str, int], dict[str, Any]] = {
    ("GET /deployments/applications/{uuid}", 200): {
        "type": "object",
        "required": ["count", "deployments"],
        "properties": {
            "count": {"type": "integer"},
            "deployments": {
                "type": "array",
                "items": {"$ref": "#/components/schemas/ApplicationDeploymentQueue"},
            },
        },
    }
}
ADDITIONS = {
    "server_status": "whether the server is reachable; stands beside every status",
    "domains": "what a create answers besides the uuid",
    "docs": "where an unknown call points to",
    "error": "what is wrong with a request that is no JSON",
    "environments": "a project shows its own",
    "uuid": "an environment has one too",
    "is_reachable": "in the list of servers, as in their settings",
    "is_usable": "in the list of servers, as in their settings",
}
UNDOCUMENTED = {
    ("POST /applications/dockerimage", 404): "no such project, environment or server",
    ("POST /applications/dockerimage", 422): "a field that is unknown, missing or of another type",
    ("POST /applications/dockerimage", 500): "a description over 255 characters",
    ("PATCH /applications/{uuid}", 422): "a field or query parameter that is not known",
    ("PATCH /applications/{uuid}", 500): "a description over 255 characters",
    ("PATCH /applications/{uuid}/envs/bulk", 422): "an item without key",
    ("GET /deployments/applications/{uuid}", 404): "no such application",
    ("GET /deployments/applications/{uuid}", 422): "take or skip is no number",
    ("POST /deployments/{uuid}/cancel", 500): "versions that fail though it worked",
    ("POST /deploy", 404): "no such application",
    ("POST /deploy", 429): "the queue is full",
}
ANYWHERE = {
    403: "documented for cancel only, yet every call can be refused so",
    429: "the rate limit holds for every call with a token",
}


def resolved(part: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in part:
        target: Any = DOCUMENT
        for step in part["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        part = target
    return part


def with_nulls(schema: Any) -> Any:
    """`nullable` is of OpenAPI 3.0; the document calls itself 3.1 and means it all the same."""
    if isinstance(schema, list):
        return [with_nulls(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    changed = {name: with_nulls(part) for name, part in schema.items()}
    if changed.pop("nullable", None) is True and isinstance(changed.get("type"), str):
        changed["type"] = [changed["type"], "null"]
        if "enum" in changed:
            changed["enum"] = [*changed["enum"], None]
    return changed


def with_dockerimage(components: dict[str, Any]) -> dict[str, Any]:
    """The document's parts with the one build pack that we use."""
    changed = copy.deepcopy(components)
    changed["schemas"]["Application"]["properties"]["build_pack"]["enum"].append("dockerimage")
    return changed


def documented(endpoint: str, status: int) -> dict[str, Any] | None:
    method, path = endpoint.split(" ", 1)
    responses = DOCUMENT["paths"][path][method.lower()]["responses"]
    return resolved(responses[str(status)]) if str(status) in responses else None


def unknown_fields(content: Any, schema: dict[str, Any]) -> Iterator[str]:
    schema = resolved(schema)
    if isinstance(content, list):
        for each in content:
            yield from unknown_fields(each, schema.get("items", {}))
    elif isinstance(content, dict) and "properties" in schema:
        for name, value in content.items():
            if name not in schema["properties"]:
                yield name
            else:
                yield from unknown_fields(value, schema["properties"][name])


def check(endpoint: str, answer: httpx.Response) -> None:
    response = documented(endpoint, answer.status_code)
    key = (endpoint, answer.status_code)
    if response is None:
        assert key in UNDOCUMENTED or answer.status_code in ANYWHERE, key
        assert isinstance(answer.json()["message"], str)
        return
    assert key not in UNDOCUMENTED, "the document knows it by now"
    if "content" not in response:
        assert answer.json() == {"message": response["description"]}
        return
    (media_type, content), *_ = response["content"].items()
    assert answer.headers["Content-Type"].partition(";")[0] == media_type
    if media_type != "application/json":
        return
    schema = with_nulls({**content["schema"], "components": DOCUMENT["components"]})
    valid = jsonschema_rs.validator_for(schema).is_valid(answer.json())
    assert valid is (key not in CONTRADICTIONS), key
    right = CORRECTED.get(key, content["schema"])
    corrected = with_nulls({**right, "components": with_dockerimage(DOCUMENT["components"])})
    jsonschema_rs.validator_for(corrected).validate(answer.json())
    assert {*unknown_fields(answer.json(), right)} <= {*ADDITIONS}


@pytest.fixture
async def scene() -> AsyncIterator[tuple[Coolify, str, str]]:
    """An application that has been deployed and runs, with a variable."""
    async with emulated(NO_LAG) as coolify:
        uuid = await coolify.running(description="d", health_check_enabled=True, tags=["ours"])
        await coolify.write(uuid, {"A": "1"})
        deployment = await coolify.start(uuid)
        yield coolify, uuid, deployment


CASES: list[tuple[str, int, str, dict[str, Any]]] = [
    ("GET /health", 200, "", {}),
    ("GET /version", 200, "", {}),
    ("GET /version", 401, "", {"headers": {"Authorization": ""}}),
    ("GET /applications", 200, "", {}),
    ("GET /applications", 401, "", {"headers": {"Authorization": ""}}),
    ("GET /applications/{uuid}", 200, "application", {}),
    ("GET /applications/{uuid}", 404, "none", {}),
    ("GET /applications/{uuid}/logs", 200, "application", {}),
    ("GET /applications/{uuid}/logs", 404, "none", {}),
    ("GET /applications/{uuid}/envs", 200, "application", {}),
    ("GET /applications/{uuid}/envs", 404, "none", {}),
    ("POST /applications/dockerimage", 400, "", {"content": b"{"}),
    ("POST /applications/dockerimage", 422, "", {"json": {"x": 1}}),
    ("PATCH /applications/{uuid}", 200, "application", {"json": {"name": "new"}}),
    ("PATCH /applications/{uuid}", 400, "application", {"content": b""}),
    ("PATCH /applications/{uuid}", 404, "none", {"json": {"name": "new"}}),
    ("PATCH /applications/{uuid}", 422, "application", {"json": {"x": 1}}),
    ("PATCH /applications/{uuid}", 500, "application", {"json": {"description": "x" * 256}}),
    (
        "PATCH /applications/{uuid}/envs/bulk",
        201,
        "application",
        {"json": {"data": [{"key": "A", "value": "2"}, {"key": "B", "value": None}]}},
    ),
    ("PATCH /applications/{uuid}/envs/bulk", 400, "application", {"json": {"data": []}}),
    ("PATCH /applications/{uuid}/envs/bulk", 422, "application", {"json": {"data": [{}]}}),
    ("PATCH /applications/{uuid}/envs/bulk", 404, "none", {"json": {"data": []}}),
    ("POST /applications/{uuid}/start", 200, "application", {}),
    ("POST /applications/{uuid}/start", 404, "none", {}),
    ("POST /applications/{uuid}/restart", 200, "application", {}),
    ("POST /applications/{uuid}/restart", 404, "none", {}),
    ("POST /applications/{uuid}/stop", 200, "application", {}),
    ("POST /applications/{uuid}/stop", 404, "none", {}),
    ("POST /deploy", 200, "", {"params": {"tag": "ours"}}),
    ("POST /deploy", 400, "", {}),
    ("POST /deploy", 404, "", {"params": {"uuid": "none"}}),
    ("GET /deployments", 200, "", {}),
    ("GET /deployments/applications/{uuid}", 200, "application", {}),
    ("GET /deployments/applications/{uuid}", 404, "none", {}),
    ("GET /deployments/applications/{uuid}", 422, "application", {"params": {"take": "x"}}),
    ("GET /deployments/{uuid}", 200, "deployment", {}),
    ("GET /deployments/{uuid}", 404, "none", {}),
    ("POST /deployments/{uuid}/cancel", 200, "deployment", {}),
    ("POST /deployments/{uuid}/cancel", 400, "over", {}),
    ("POST /deployments/{uuid}/cancel", 404, "none", {}),
    ("GET /servers", 200, "", {}),
    ("GET /servers/{uuid}", 200, "server", {}),
    ("GET /servers/{uuid}", 404, "none", {}),
    ("GET /projects", 200, "", {}),
    ("GET /projects/{uuid}", 200, "project", {}),
    ("GET /projects/{uuid}", 404, "none", {}),
    ("GET /projects/{uuid}/{environment_name_or_uuid}", 200, "project", {}),
    ("GET /projects/{uuid}/{environment_name_or_uuid}", 404, "none", {}),
    ("DELETE /applications/{uuid}", 200, "application", {}),
    ("DELETE /applications/{uuid}", 404, "none", {}),
]


@pytest.mark.parametrize(("endpoint", "status", "whose", "sent"), CASES)
async def test_answers_are_as_documented(
    scene: tuple[Coolify, str, str], endpoint: str, status: int, whose: str, sent: dict[str, Any]
) -> None:
    coolify, application, deployment = scene
    earlier = (await coolify.get(f"/deployments/applications/{application}"))["deployments"][-1]
    uuids = {
        "application": application,
        "deployment": deployment,
        "over": earlier["deployment_uuid"],
        "server": "emulated-server",
        "project": "emulated-project",
    }
    method, path = endpoint.split(" ", 1)
    if "content" in sent:
        sent = {**sent, "headers": {"Content-Type": "application/json"}}
    path = at(path, uuids.get(whose, "none"))
    answer = await coolify.call(method, path, **sent)
    assert answer.status_code == status, answer.text
    check(endpoint, answer)


async def test_a_create_is_as_documented(prompt: Coolify) -> None:
    wanted = {
        "project_uuid": "emulated-project",
        "server_uuid": "emulated-server",
        "environment_name": "production",
        "docker_registry_image_name": "team/bot",
    }
    endpoint = "POST /applications/dockerimage"
    for change, status in [
        ({}, 201),
        ({"project_uuid": "none"}, 404),
        ({"description": "x" * 256}, 500),
    ]:
        answer = await prompt.call("POST", "/applications/dockerimage", json={**wanted, **change})
        assert answer.status_code == status
        check(endpoint, answer)


async def test_a_full_queue_and_an_old_cancel(prompt: Coolify) -> None:
    for number in range(28):
        deployment = await prompt.start(await prompt.create(f"bot-{number}"))
        if number < 2:
            prompt.wait(2)
    uuid = await prompt.create()
    answer = await prompt.call("POST", "/deploy", params={"uuid": uuid})
    assert answer.status_code == 429
    check("POST /deploy", answer)
    await prompt.faults(cancelAnswers500=True)
    deployment = (await prompt.get("/deployments"))[0]["deployment_uuid"]
    answer = await prompt.call("POST", f"/deployments/{deployment}/cancel")
    assert answer.status_code == 500
    check("POST /deployments/{uuid}/cancel", answer)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.name)
async def test_refusals_of_every_call(prompt: Coolify, endpoint: Any) -> None:
    if endpoint.path == "/health":
        return
    path = at(endpoint.path, "none")
    for fault, status in [({"apiDisabled": True}, 403), ({"rateLimited": True}, 429)]:
        await prompt.faults(clear=True, **fault)
        answer = await prompt.call(endpoint.method, path)
        assert answer.status_code == status
        check(endpoint.name, answer)


def test_every_call_is_documented_and_every_documented_case_is_tried() -> None:
    tried = {(endpoint, status) for endpoint, status, *_ in CASES}
    tried |= {("POST /applications/dockerimage", status) for status in (201, 404, 500)}
    tried |= {("POST /deploy", 429), ("POST /deployments/{uuid}/cancel", 500)}
    assert {endpoint for endpoint, _ in tried} == {endpoint.name for endpoint in ENDPOINTS}
    for endpoint in ENDPOINTS:
        assert any(documented(endpoint.name, status) for status in (200, 201)), endpoint.name
    assert {*CONTRADICTIONS, *UNDOCUMENTED} <= tried
