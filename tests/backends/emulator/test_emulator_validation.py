"""Validation, authorization and rate limits of the API."""

from typing import Any

import httpx
import pytest

from botpool.emulators.coolify import EmulatorConfig
from tests.backends.emulator.coolify_client import (
    EXITED,
    HEADERS,
    LOCATION,
    NO_LAG,
    CoolifyClient,
    emulated,
)
from tests.support.emulated_transport import EmulatedTransport

CREATE = "/applications/dockerimage"
VALID_BODY = {**LOCATION, "docker_registry_image_name": "team/bot", "name": "bot"}


async def test_application_names_are_not_unique(coolify: CoolifyClient) -> None:
    assert await coolify.create("same") != await coolify.create("same")
    assert [each["name"] for each in await coolify.get("/applications")] == ["same", "same"]


async def test_list_filters_by_lower_case_tag(coolify: CoolifyClient) -> None:
    ours = await coolify.create("ours", tags=["Botpool-A"])
    await coolify.create("others", tags=["botpool-b"])
    assert [each["uuid"] for each in await coolify.get("/applications?tag=botpool-a")] == [ours]
    assert await coolify.get("/applications?tag=unknown") == []


async def test_new_application_is_exited_with_its_description_and_tag(
    coolify: CoolifyClient,
) -> None:
    uuid = await coolify.create(description="[IDLE] Available")
    shown = await coolify.get(f"/applications/{uuid}")
    assert (shown["status"], shown["server_status"]) == (EXITED, True)
    assert shown["description"] == "[IDLE] Available"
    assert shown["docker_registry_image_tag"] == "1"


@pytest.mark.parametrize(
    ("change", "status", "field"),
    [
        ({"surprise": 1}, 422, "surprise"),
        ({"name": 7}, 422, "name"),
        ({"name": "x" * 256}, 422, "name"),
        ({"instant_deploy": "perhaps"}, 422, "instant_deploy"),
        ({"docker_registry_image_name": None}, 422, "docker_registry_image_name"),
        ({"docker_registry_image_name": "  "}, 422, "docker_registry_image_name"),
        ({"project_uuid": None}, 422, "project_uuid"),
        ({"environment_name": None}, 422, "environment_name"),
        ({"destination_uuid": "elsewhere"}, 422, "destination_uuid"),
        ({"project_uuid": "another"}, 404, None),
        ({"server_uuid": "another"}, 404, None),
        ({"environment_name": "another"}, 404, None),
    ],
)
async def test_invalid_create_creates_nothing(
    coolify: CoolifyClient, change: dict[str, Any], status: int, field: str | None
) -> None:
    response = await coolify.call("POST", CREATE, json={**VALID_BODY, **change})
    assert response.status_code == status
    assert field is None or field in response.json()["errors"]
    assert await coolify.get("/applications") == []


async def test_validation_errors_are_lists_or_strings(coolify: CoolifyClient) -> None:
    a_list = await coolify.call("POST", CREATE, json={**VALID_BODY, "surprise": 1})
    assert a_list.json()["errors"] == {"surprise": ["This field is not allowed."]}
    a_text = await coolify.call(
        "POST", CREATE, json={**VALID_BODY, "destination_uuid": "elsewhere"}
    )
    assert isinstance(a_text.json()["errors"]["destination_uuid"], str)


async def test_server_with_several_destinations_requires_destination() -> None:
    async with emulated(EmulatorConfig(destinations=("one", "two"))) as coolify:
        response = await coolify.call("POST", CREATE, json=VALID_BODY)
        assert (response.status_code, "destination" in response.json()["message"]) == (400, True)
        response = await coolify.call(
            "POST", CREATE, json={**VALID_BODY, "destination_uuid": "two"}
        )
        assert response.status_code == 201


@pytest.mark.parametrize(
    "body",
    [
        {"data": {"name": "bot"}},
        {"content": b"{", "headers": {"Content-Type": "application/json"}},
        {"content": b"\xff", "headers": {"Content-Type": "application/json"}},
        {"content": b"[" * 500 + b"]" * 500, "headers": {"Content-Type": "application/json"}},
        {"json": {}},
        {"json": [1]},
    ],
)
async def test_body_that_is_not_a_json_object_returns_400(
    coolify: CoolifyClient, body: dict[str, Any]
) -> None:
    response = await coolify.call("POST", CREATE, **body)
    assert (response.status_code, response.json()["message"]) == (400, "Invalid request.")


async def test_update_rejects_unknown_fields_and_last_write_wins(coolify: CoolifyClient) -> None:
    uuid = await coolify.create()
    path = f"/applications/{uuid}"
    for name in ("[BUSY] one", "[BUSY] two"):
        response = await coolify.call("PATCH", path, json={"description": name})
        assert (response.status_code, response.json()) == (200, {"uuid": uuid})
    assert (await coolify.call("PATCH", path, json={"tags": ["x"]})).status_code == 422
    unknown = await coolify.call("PATCH", f"{path}?force=1", json={"description": "three"})
    assert (unknown.status_code, list(unknown.json()["errors"])) == (422, ["force"])
    assert (await coolify.get(path))["description"] == "[BUSY] two"
    await coolify.call("PATCH", path, json={"docker_registry_image_tag": "2", "name": "other"})
    shown = await coolify.get(path)
    assert (shown["docker_registry_image_tag"], shown["name"]) == ("2", "other")
    assert (
        await coolify.call("PATCH", "/applications/none", json={"name": "x"})
    ).status_code == 404


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("  around  ", "around"),
        ("before <b>after", "before"),
        ("a < b", "a"),
        ("", None),
        ("x" * 255, "x" * 255),
        ("x" * 255 + "<" + "y" * 100, "x" * 255),
    ],
)
async def test_description_is_trimmed_and_cut(
    coolify: CoolifyClient, sent: str, kept: str | None
) -> None:
    uuid = await coolify.create()
    path = f"/applications/{uuid}"
    response = await coolify.call("PATCH", path, json={"description": sent})
    assert response.status_code == 200
    assert (await coolify.get(path))["description"] == kept


async def test_description_over_255_characters_returns_500(coolify: CoolifyClient) -> None:
    uuid = await coolify.create(description="old")
    path = f"/applications/{uuid}"
    response = await coolify.call("PATCH", path, json={"description": "x" * 256, "name": "new"})
    assert response.status_code == 500
    shown = await coolify.get(path)
    assert (shown["description"], shown["name"]) == ("old", "bot")


async def test_variable_is_overwritten_and_has_preview_copy(coolify: CoolifyClient) -> None:
    uuid = await coolify.create()
    for value in ("one", "two"):
        response = await coolify.write(uuid, {"A": value}, is_literal=True)
        assert response.status_code == 201
    listed = await coolify.get(f"/applications/{uuid}/envs")
    assert [(each["value"], each["is_preview"]) for each in listed] == [
        ("two", False),
        ("one", True),
    ]


async def test_bulk_write_of_variables_is_not_transactional(coolify: CoolifyClient) -> None:
    uuid = await coolify.create()
    data = [{"key": "A", "value": "1"}, {"value": "no key"}, {"key": "B", "value": "2"}]
    path = f"/applications/{uuid}/envs"
    response = await coolify.call("PATCH", f"{path}/bulk", json={"data": data})
    assert response.status_code == 422
    assert {each["key"] for each in await coolify.get(path)} == {"A"}


@pytest.mark.parametrize(
    ("value", "literal", "arrives"),
    [
        ('{"a": 1}', True, '{"a": 1}'),
        ("it's", True, "it"),
        (r'{"a": "it\u0027s \u0024HOME"}', True, r'{"a": "it\u0027s \u0024HOME"}'),
        ("$HOME and ${X}!", False, " and known!"),
        ("$HOME", True, "$HOME"),
        ('{"title": "Stand-up #12"}', True, '{"title": "Stand-up'),
        ('{"title": "Stand-up#12"}', True, '{"title": "Stand-up#12"}'),
        ('{"a": "it\'s $X"}', True, '{"a": "it\'s known"}'),
        ('{"a": "{{team.SECRET}}"}', True, '{"a": "secret of the team"}'),
        ("{{ project.SECRET }} {{environment.SECRET}}", True, None),
        ("{{team.UNKNOWN}}", True, "{{team.UNKNOWN}}"),
        (r'{"a": "\u0023 {\u007bteam.SECRET}}"}', True, r'{"a": "\u0023 {\u007bteam.SECRET}}"}'),
    ],
)
async def test_variable_value_in_container(
    coolify: CoolifyClient, value: str, literal: bool, arrives: str | None
) -> None:
    arrives = arrives or "secret of the project secret of the environment"
    uuid = await coolify.create()
    await coolify.write(uuid, {"X": "known"})
    await coolify.write(uuid, {"PREVIEW": "no"}, is_preview=True)
    await coolify.write(uuid, {"VALUE": value}, is_literal=literal)
    await coolify.start(uuid)
    coolify.wait(600)
    (container,) = coolify.emulated.containers.running
    assert container.environment == {"X": "known", "VALUE": arrives, "COOLIFY_RESOURCE_UUID": uuid}


async def test_duplicate_variable_keeps_its_old_value_and_wins(coolify: CoolifyClient) -> None:
    uuid = await coolify.create()
    await coolify.faults(duplicateVariable=1)
    await coolify.write(uuid, {"TOKEN": "old"})
    await coolify.write(uuid, {"TOKEN": "new"})
    listed = await coolify.get(f"/applications/{uuid}/envs")
    assert [each["value"] for each in listed if not each["is_preview"]] == ["new", "old"]
    await coolify.start(uuid)
    coolify.wait(600)
    (container,) = coolify.emulated.containers.running
    assert container.environment["TOKEN"] == "old"


async def test_deployment_with_a_large_environment_fails(coolify: CoolifyClient) -> None:
    uuid = await coolify.create()
    await coolify.write(uuid, {"A": "x" * 50_000, "B": "x" * 50_000})
    deployment = await coolify.start(uuid)
    coolify.wait(600)
    assert await coolify.deployment(deployment) == "failed"
    await coolify.write(uuid, {"A": "x" * 40_000})
    deployment = await coolify.start(uuid)
    coolify.wait(600)
    assert await coolify.deployment(deployment) == "finished"


@pytest.mark.parametrize("accept", ["*/*", "text/html", ""])
async def test_errors_are_html_without_accept_json(coolify: CoolifyClient, accept: str) -> None:
    headers = {"Accept": accept}
    for method, path, status in [
        ("GET", "/applications/none", 404),
        ("GET", "/nothing", 404),
        ("PUT", "/applications", 405),
        ("POST", CREATE, 400),
    ]:
        response = await coolify.call(method, path, headers=headers)
        assert response.status_code == status
        assert response.headers["Content-Type"].startswith("text/html")
        assert response.text.startswith("<!DOCTYPE html>")
    assert (await coolify.call("GET", "/applications", headers=headers)).json() == []


@pytest.mark.parametrize("token", ["", "Bearer 1|wrong", "Bearer emulated", "Basic 1|emulated"])
async def test_wrong_token_returns_401(coolify: CoolifyClient, token: str) -> None:
    response = await coolify.call("GET", "/applications", headers={"Authorization": token})
    assert (response.status_code, response.json()) == (401, {"message": "Unauthenticated."})
    health = await coolify.call("GET", "/health", headers={"Authorization": token})
    assert (health.status_code, health.text) == (200, "OK")


@pytest.mark.parametrize(
    ("fault", "status", "message"),
    [
        ({"tokenExpired": True}, 401, "Unauthenticated."),
        ({"apiDisabled": True}, 403, "API is disabled."),
        ({"addressNotAllowed": True}, 403, "You are not allowed to access the API."),
        (
            {"missingAbility": {"ability": "read"}},
            403,
            "Missing required permissions: read",
        ),
    ],
)
async def test_authorization_faults(
    coolify: CoolifyClient, fault: dict[str, Any], status: int, message: str
) -> None:
    await coolify.faults(**fault)
    response = await coolify.call("GET", "/applications")
    assert (response.status_code, response.json()["message"]) == (status, message)
    await coolify.faults(clear=True)
    assert await coolify.get("/applications") == []


async def test_token_without_deploy_can_read_and_write(coolify: CoolifyClient) -> None:
    await coolify.faults(missingAbility=True)
    uuid = await coolify.create()
    response = await coolify.call("POST", f"/applications/{uuid}/start")
    assert response.status_code == 403
    assert response.json()["message"] == "Missing required permissions: deploy"


async def test_token_without_read_sensitive_gets_no_values(coolify: CoolifyClient) -> None:
    uuid = await coolify.create()
    await coolify.write(uuid, {"A": "1"})
    await coolify.faults(hideSensitive=True)
    written = (await coolify.write(uuid, {"A": "2"})).json()
    listed = await coolify.get(f"/applications/{uuid}/envs")
    assert [each["key"] for each in written + listed] == ["A"] * 3
    assert not any({"value", "real_value"} & {*each} for each in written + listed)
    await coolify.faults(clear=True)
    first, preview = await coolify.get(f"/applications/{uuid}/envs")
    assert (first["value"], preview["value"]) == ("2", "1"), "hidden values are written"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/servers/nowhere", "Server not found."),
        ("/projects/nowhere", "Project not found."),
        ("/projects/nowhere/production", "Project not found."),
        ("/projects/emulated-project/nowhere", "Environment not found."),
    ],
)
async def test_unknown_server_project_or_environment_returns_404(
    coolify: CoolifyClient, path: str, message: str
) -> None:
    response = await coolify.call("GET", path)
    assert (response.status_code, response.json()) == (404, {"message": message})


async def test_server_project_and_environment_can_be_read(coolify: CoolifyClient) -> None:
    (server,) = await coolify.get("/servers")
    assert (server["uuid"], server["is_reachable"]) == ("emulated-server", True)
    assert server["settings"]["concurrent_builds"] == 2
    (project,) = await coolify.get("/projects")
    shown = await coolify.get(f"/projects/{project['uuid']}")
    (environment,) = shown["environments"]
    path = f"/projects/emulated-project/{environment['name']}"
    assert await coolify.get(path) == environment
    await coolify.faults(serverUnreachable=True)
    assert (await coolify.get("/servers/emulated-server"))["settings"]["is_reachable"] is False


async def test_rate_limit_is_200_requests_a_minute(coolify: CoolifyClient) -> None:
    coolify.wait(30)
    for left in range(199, -1, -1):
        response = await coolify.call("GET", "/version")
        assert response.headers["X-RateLimit-Remaining"] == str(left)
    coolify.wait(20)
    refused = await coolify.call("GET", "/applications")
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "40")
    assert refused.headers["X-RateLimit-Limit"] == "200"
    coolify.wait(39)
    assert (await coolify.call("GET", "/version")).status_code == 429
    coolify.wait(1)
    assert (await coolify.call("GET", "/version")).status_code == 200
    assert (await coolify.state())["requestsByMinute"] == [201, 2]


async def test_clients_share_the_rate_limit() -> None:
    async with emulated(EmulatorConfig(requests_per_minute=1)) as coolify:
        assert (await coolify.call("GET", "/version")).status_code == 200
        transport = EmulatedTransport(coolify.emulated, coolify.clock)
        async with httpx.AsyncClient(transport=transport, headers=HEADERS) as other:
            response = await other.get("http://coolify/api/v1/version")
            assert response.status_code == 429


async def test_429_on_demand(coolify: CoolifyClient) -> None:
    await coolify.faults(rateLimited={"times": 1, "retryAfter": 7, "endpoint": "GET /applications"})
    assert (await coolify.call("GET", "/version")).status_code == 200
    response = await coolify.call("GET", "/applications")
    assert (response.status_code, response.headers["Retry-After"]) == (429, "7")
    assert (await coolify.call("GET", "/applications")).status_code == 200


async def test_failed_call_limit_fault(coolify: CoolifyClient) -> None:
    await coolify.faults(failedCallLimit=True)
    statuses = [(await coolify.call("GET", "/applications/none")).status_code for _ in range(31)]
    assert statuses == [404] * 30 + [429]
    assert (await coolify.call("GET", "/applications")).status_code == 200


async def test_deployments_as_object_fault(coolify: CoolifyClient) -> None:
    deployment = await coolify.start(await coolify.create())
    await coolify.faults(deploymentsAsObject=True)
    listed = await coolify.get("/deployments")
    assert list(listed) == ["1"]
    assert listed["1"]["deployment_uuid"] == deployment


@pytest.mark.parametrize("verb", ["start", "restart", "stop"])
async def test_starts_and_stops_refuse_get(coolify: CoolifyClient, verb: str) -> None:
    uuid = await coolify.create()
    refused = await coolify.call("GET", f"/applications/{uuid}/{verb}")
    assert (refused.status_code, refused.headers["Allow"]) == (405, "POST")
    assert (await coolify.call("POST", f"/applications/{uuid}/{verb}")).status_code == 200


async def test_deployments_of_application_are_listed_newest_first() -> None:
    async with emulated(NO_LAG) as coolify:
        uuid = await coolify.create()
        started = []
        for _ in range(3):
            started.append(await coolify.start(uuid))
            coolify.wait(600)
        path = f"/deployments/applications/{uuid}"
        two = await coolify.get(f"{path}?take=2")
        assert two["count"] == 3
        assert [each["deployment_uuid"] for each in two["deployments"]] == started[:0:-1]
        assert len((await coolify.get(f"{path}?skip=2"))["deployments"]) == 1
        assert (await coolify.call("GET", f"{path}?take=x")).status_code == 422
