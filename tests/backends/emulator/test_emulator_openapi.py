"""Validates every response against Coolify's OpenAPI document, with a table of its errors.

The document requires no field, so an empty object would pass; the tests therefore also check for
fields that the document does not contain. A wrong line in a table fails its test.
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
from tests.backends.emulator.coolify_client import NO_LAG, CoolifyClient, at, emulated

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
    "server_status": "whether the server is reachable, beside every status",
    "domains": "in the response to a create",
    "docs": "in the response to an unknown call",
    "error": "the error of a request that is not JSON",
    "environments": "the environments of a project",
    "uuid": "the uuid of an environment",
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
    ("GET /deployments/applications/{uuid}", 422): "take or skip is not a number",
    ("POST /deployments/{uuid}/cancel", 500): "some versions fail although the cancel works",
    ("POST /deploy", 404): "no such application",
    ("POST /deploy", 429): "the queue is full",
}
ANYWHERE = {
    403: "documented only for cancel, but every call can return it",
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
    """Convert `nullable`, which the document uses although it declares OpenAPI 3.1."""
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
    """Add the build pack `dockerimage` to the document's schema."""
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


def check(endpoint: str, response: httpx.Response) -> None:
    documentation = documented(endpoint, response.status_code)
    key = (endpoint, response.status_code)
    if documentation is None:
        assert key in UNDOCUMENTED or response.status_code in ANYWHERE, key
        assert isinstance(response.json()["message"], str)
        return
    assert key not in UNDOCUMENTED, "the document now contains this case"
    if "content" not in documentation:
        assert response.json() == {"message": documentation["description"]}
        return
    (media_type, content), *_ = documentation["content"].items()
    assert response.headers["Content-Type"].partition(";")[0] == media_type
    if media_type != "application/json":
        return
    schema = with_nulls({**content["schema"], "components": DOCUMENT["components"]})
    valid = jsonschema_rs.validator_for(schema).is_valid(response.json())
    assert valid is (key not in CONTRADICTIONS), key
    right = CORRECTED.get(key, content["schema"])
    corrected = with_nulls({**right, "components": with_dockerimage(DOCUMENT["components"])})
    jsonschema_rs.validator_for(corrected).validate(response.json())
    assert {*unknown_fields(response.json(), right)} <= {*ADDITIONS}


@pytest.fixture
async def deployed() -> AsyncIterator[tuple[CoolifyClient, str, str]]:
    """A running application with a variable and an open deployment."""
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
    ("GET /applications/{uuid}/tags", 200, "application", {}),
    ("GET /applications/{uuid}/tags", 404, "none", {}),
    ("POST /applications/{uuid}/tags", 201, "application", {"json": {"tag_name": "two"}}),
    ("POST /applications/{uuid}/tags", 404, "none", {"json": {"tag_name": "two"}}),
    ("POST /applications/{uuid}/tags", 422, "application", {"json": {"x": 1}}),
    (
        "PATCH /applications/{uuid}/envs/bulk",
        201,
        "application",
        {"json": {"data": [{"key": "A", "value": "2"}, {"key": "B", "value": None}]}},
    ),
    ("PATCH /applications/{uuid}/envs/bulk", 400, "application", {"json": {"data": []}}),
    ("PATCH /applications/{uuid}/envs/bulk", 422, "application", {"json": {"data": [{}]}}),
    ("PATCH /applications/{uuid}/envs/bulk", 404, "none", {"json": {"data": []}}),
    ("DELETE /applications/{uuid}/envs/{env_uuid}", 404, "none", {}),
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


@pytest.mark.parametrize(("endpoint", "status", "target", "sent"), CASES)
async def test_response_matches_openapi_document(
    deployed: tuple[CoolifyClient, str, str],
    endpoint: str,
    status: int,
    target: str,
    sent: dict[str, Any],
) -> None:
    coolify, application, deployment = deployed
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
    path = at(path, uuids.get(target, "none"))
    response = await coolify.call(method, path, **sent)
    assert response.status_code == status, response.text
    check(endpoint, response)


async def test_create_response_matches_openapi_document(coolify: CoolifyClient) -> None:
    body = {
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
        response = await coolify.call("POST", "/applications/dockerimage", json={**body, **change})
        assert response.status_code == status
        check(endpoint, response)


async def test_delete_of_a_variable_matches_openapi_document(coolify: CoolifyClient) -> None:
    uuid = await coolify.create()
    await coolify.write(uuid, {"A": "1"})
    listed = await coolify.get(f"/applications/{uuid}/envs")
    path = f"/applications/{uuid}/envs/{listed[0]['uuid']}"
    response = await coolify.call("DELETE", path)
    assert response.status_code == 200
    check("DELETE /applications/{uuid}/envs/{env_uuid}", response)
    assert await coolify.get(f"/applications/{uuid}/envs") == listed[1:]
    assert (await coolify.call("DELETE", path)).status_code == 404


async def test_full_queue_and_failed_cancel_match_openapi_document(coolify: CoolifyClient) -> None:
    for number in range(28):
        deployment = await coolify.start(await coolify.create(f"bot-{number}"))
        if number < 2:
            coolify.wait(2)
    uuid = await coolify.create()
    response = await coolify.call("POST", "/deploy", params={"uuid": uuid})
    assert response.status_code == 429
    check("POST /deploy", response)
    await coolify.faults(cancelAnswers500=True)
    deployment = (await coolify.get("/deployments"))[0]["deployment_uuid"]
    response = await coolify.call("POST", f"/deployments/{deployment}/cancel")
    assert response.status_code == 500
    check("POST /deployments/{uuid}/cancel", response)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: endpoint.name)
async def test_403_and_429_match_openapi_document(coolify: CoolifyClient, endpoint: Any) -> None:
    if endpoint.path == "/health":
        return
    path = at(endpoint.path, "none")
    for fault, status in [({"apiDisabled": True}, 403), ({"rateLimited": True}, 429)]:
        await coolify.faults(clear=True, **fault)
        response = await coolify.call(endpoint.method, path)
        assert response.status_code == status
        check(endpoint.name, response)


def test_cases_cover_every_endpoint_and_exception() -> None:
    tried = {(endpoint, status) for endpoint, status, *_ in CASES}
    tried |= {("POST /applications/dockerimage", status) for status in (201, 404, 500)}
    tried |= {("POST /deploy", 429), ("POST /deployments/{uuid}/cancel", 500)}
    assert {endpoint for endpoint, _ in tried} == {endpoint.name for endpoint in ENDPOINTS}
    for endpoint in ENDPOINTS:
        assert any(documented(endpoint.name, status) for status in (200, 201)), endpoint.name
    assert {*CONTRADICTIONS, *UNDOCUMENTED} <= tried
