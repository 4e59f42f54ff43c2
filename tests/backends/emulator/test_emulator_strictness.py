"""What Coolify does not let pass: fields, forms, rights and rates."""

from typing import Any

import httpx
import pytest

from botpool.emulators.coolify import EmulatedTransport, Nature
from tests.backends.emulator.emulated_coolify import (
    EXITED,
    HEADERS,
    NO_LAG,
    PLACE,
    Coolify,
    emulated,
)

CREATE = "/applications/dockerimage"
WANTED = {**PLACE, "docker_registry_image_name": "team/bot", "name": "bot"}


async def test_names_are_not_unique(prompt: Coolify) -> None:
    assert await prompt.create("same") != await prompt.create("same")
    assert [each["name"] for each in await prompt.get("/applications")] == ["same", "same"]


async def test_the_list_filters_by_tag_in_lower_case(prompt: Coolify) -> None:
    ours = await prompt.create("ours", tags=["Botpool-A"])
    await prompt.create("others", tags=["botpool-b"])
    assert [each["uuid"] for each in await prompt.get("/applications?tag=botpool-a")] == [ours]
    assert await prompt.get("/applications?tag=nobody") == []


async def test_a_new_application(prompt: Coolify) -> None:
    uuid = await prompt.create(description="[IDLE] Available")
    shown = await prompt.get(f"/applications/{uuid}")
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
async def test_create_is_strict(
    prompt: Coolify, change: dict[str, Any], status: int, field: str | None
) -> None:
    """Point 10: errors are lists, or now and then strings."""
    answer = await prompt.call("POST", CREATE, json={**WANTED, **change})
    assert answer.status_code == status
    assert field is None or field in answer.json()["errors"]
    assert await prompt.get("/applications") == []


async def test_errors_are_lists_or_strings(prompt: Coolify) -> None:
    a_list = await prompt.call("POST", CREATE, json={**WANTED, "surprise": 1})
    assert a_list.json()["errors"] == {"surprise": ["This field is not allowed."]}
    a_text = await prompt.call("POST", CREATE, json={**WANTED, "destination_uuid": "elsewhere"})
    assert isinstance(a_text.json()["errors"]["destination_uuid"], str)


async def test_a_server_with_several_destinations_wants_to_know_which() -> None:
    async with emulated(Nature(destinations=("one", "two"))) as coolify:
        answer = await coolify.call("POST", CREATE, json=WANTED)
        assert (answer.status_code, "destination" in answer.json()["message"]) == (400, True)
        answer = await coolify.call("POST", CREATE, json={**WANTED, "destination_uuid": "two"})
        assert answer.status_code == 201


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
async def test_json_only(prompt: Coolify, body: dict[str, Any]) -> None:
    answer = await prompt.call("POST", CREATE, **body)
    assert (answer.status_code, answer.json()["message"]) == (400, "Invalid request.")


async def test_update_is_strict_and_the_last_write_wins(prompt: Coolify) -> None:
    uuid = await prompt.create()
    path = f"/applications/{uuid}"
    for name in ("[BUSY] one", "[BUSY] two"):
        answer = await prompt.call("PATCH", path, json={"description": name})
        assert (answer.status_code, answer.json()) == (200, {"uuid": uuid})
    assert (await prompt.call("PATCH", path, json={"tags": ["x"]})).status_code == 422
    unknown = await prompt.call("PATCH", f"{path}?force=1", json={"description": "three"})
    assert (unknown.status_code, list(unknown.json()["errors"])) == (422, ["force"])
    assert (await prompt.get(path))["description"] == "[BUSY] two"
    await prompt.call("PATCH", path, json={"docker_registry_image_tag": "2", "name": "other"})
    shown = await prompt.get(path)
    assert (shown["docker_registry_image_tag"], shown["name"]) == ("2", "other")
    assert (await prompt.call("PATCH", "/applications/none", json={"name": "x"})).status_code == 404


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
async def test_descriptions_are_trimmed_and_cut(
    prompt: Coolify, sent: str, kept: str | None
) -> None:
    """Point 10."""
    uuid = await prompt.create()
    path = f"/applications/{uuid}"
    answer = await prompt.call("PATCH", path, json={"description": sent})
    assert answer.status_code == 200
    assert (await prompt.get(path))["description"] == kept


async def test_a_description_over_255_characters_is_a_500(prompt: Coolify) -> None:
    """Point 10."""
    uuid = await prompt.create(description="old")
    path = f"/applications/{uuid}"
    answer = await prompt.call("PATCH", path, json={"description": "x" * 256, "name": "new"})
    assert answer.status_code == 500
    shown = await prompt.get(path)
    assert (shown["description"], shown["name"]) == ("old", "bot")


async def test_variables_are_written_over_and_have_twins(prompt: Coolify) -> None:
    uuid = await prompt.create()
    for value in ("one", "two"):
        answer = await prompt.write(uuid, {"A": value}, is_literal=True)
        assert answer.status_code == 201
    listed = await prompt.get(f"/applications/{uuid}/envs")
    assert [(each["value"], each["is_preview"]) for each in listed] == [
        ("two", False),
        ("one", True),
    ]


async def test_a_bulk_of_variables_is_not_transactional(prompt: Coolify) -> None:
    uuid = await prompt.create()
    data = [{"key": "A", "value": "1"}, {"value": "no key"}, {"key": "B", "value": "2"}]
    path = f"/applications/{uuid}/envs"
    answer = await prompt.call("PATCH", f"{path}/bulk", json={"data": data})
    assert answer.status_code == 422
    assert {each["key"] for each in await prompt.get(path)} == {"A"}


@pytest.mark.parametrize(
    ("value", "literal", "arrives"),
    [
        ('{"a": 1}', True, '{"a": 1}'),
        ("it's", True, "it"),
        (r'{"a": "it\u0027s \u0024HOME"}', True, r'{"a": "it\u0027s \u0024HOME"}'),
        ("$HOME and ${X}!", False, " and known!"),
        ("$HOME", True, "$HOME"),
    ],
)
async def test_what_reaches_the_container(
    prompt: Coolify, value: str, literal: bool, arrives: str
) -> None:
    uuid = await prompt.create()
    await prompt.write(uuid, {"X": "known"})
    await prompt.write(uuid, {"PREVIEW": "no"}, is_preview=True)
    await prompt.write(uuid, {"VALUE": value}, is_literal=literal)
    await prompt.start(uuid)
    prompt.wait(600)
    (container,) = prompt.world.running_containers
    assert container.environment == {"X": "known", "VALUE": arrives, "COOLIFY_RESOURCE_UUID": uuid}


@pytest.mark.parametrize("accept", ["*/*", "text/html", ""])
async def test_errors_are_html_without_accept(prompt: Coolify, accept: str) -> None:
    """Point 10."""
    headers = {"Accept": accept}
    for method, path, status in [
        ("GET", "/applications/none", 404),
        ("GET", "/nothing", 404),
        ("PUT", "/applications", 405),
        ("POST", CREATE, 400),
    ]:
        answer = await prompt.call(method, path, headers=headers)
        assert answer.status_code == status
        assert answer.headers["Content-Type"].startswith("text/html")
        assert answer.text.startswith("<!DOCTYPE html>")
    assert (await prompt.call("GET", "/applications", headers=headers)).json() == []


@pytest.mark.parametrize("token", ["", "Bearer 1|wrong", "Bearer emulated", "Basic 1|emulated"])
async def test_401(prompt: Coolify, token: str) -> None:
    """Point 11."""
    answer = await prompt.call("GET", "/applications", headers={"Authorization": token})
    assert (answer.status_code, answer.json()) == (401, {"message": "Unauthenticated."})
    health = await prompt.call("GET", "/health", headers={"Authorization": token})
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
async def test_every_401_and_403(
    prompt: Coolify, fault: dict[str, Any], status: int, message: str
) -> None:
    """Point 11."""
    await prompt.faults(**fault)
    answer = await prompt.call("GET", "/applications")
    assert (answer.status_code, answer.json()["message"]) == (status, message)
    await prompt.faults(clear=True)
    assert await prompt.get("/applications") == []


async def test_a_token_without_deploy_can_read_and_write(prompt: Coolify) -> None:
    await prompt.faults(missingAbility=True)
    uuid = await prompt.create()
    answer = await prompt.call("POST", f"/applications/{uuid}/start")
    assert answer.status_code == 403
    assert answer.json()["message"] == "Missing required permissions: deploy"


async def test_a_token_without_read_sensitive_sees_no_values(prompt: Coolify) -> None:
    uuid = await prompt.create()
    await prompt.write(uuid, {"A": "1"})
    await prompt.faults(hideSensitive=True)
    written = (await prompt.write(uuid, {"A": "2"})).json()
    listed = await prompt.get(f"/applications/{uuid}/envs")
    assert [each["key"] for each in written + listed] == ["A"] * 3
    assert not any({"value", "real_value"} & {*each} for each in written + listed)
    await prompt.faults(clear=True)
    first, twin = await prompt.get(f"/applications/{uuid}/envs")
    assert (first["value"], twin["value"]) == ("2", "1"), "hidden, and yet written"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/servers/nowhere", "Server not found."),
        ("/projects/nowhere", "Project not found."),
        ("/projects/nowhere/production", "Project not found."),
        ("/projects/emulated-project/nowhere", "Environment not found."),
    ],
)
async def test_a_wrong_place_is_told_by_name(prompt: Coolify, path: str, message: str) -> None:
    answer = await prompt.call("GET", path)
    assert (answer.status_code, answer.json()) == (404, {"message": message})


async def test_the_place_can_be_read(prompt: Coolify) -> None:
    (server,) = await prompt.get("/servers")
    assert (server["uuid"], server["is_reachable"]) == ("emulated-server", True)
    assert server["settings"]["concurrent_builds"] == 2
    (project,) = await prompt.get("/projects")
    shown = await prompt.get(f"/projects/{project['uuid']}")
    (environment,) = shown["environments"]
    path = f"/projects/emulated-project/{environment['name']}"
    assert await prompt.get(path) == environment
    await prompt.faults(serverUnreachable=True)
    assert (await prompt.get("/servers/emulated-server"))["settings"]["is_reachable"] is False


async def test_200_requests_a_minute(prompt: Coolify) -> None:
    """Point 11."""
    prompt.wait(30)
    for left in range(199, -1, -1):
        answer = await prompt.call("GET", "/version")
        assert answer.headers["X-RateLimit-Remaining"] == str(left)
    prompt.wait(20)
    refused = await prompt.call("GET", "/applications")
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "40")
    assert refused.headers["X-RateLimit-Limit"] == "200"
    prompt.wait(39)
    assert (await prompt.call("GET", "/version")).status_code == 429
    prompt.wait(1)
    assert (await prompt.call("GET", "/version")).status_code == 200
    assert (await prompt.state())["requestsByMinute"] == [201, 2]


async def test_clients_share_the_budget() -> None:
    async with emulated(Nature(requests_per_minute=1)) as coolify:
        assert (await coolify.call("GET", "/version")).status_code == 200
        transport = EmulatedTransport(coolify.world, coolify.clock)
        async with httpx.AsyncClient(transport=transport, headers=HEADERS) as other:
            answer = await other.get("http://coolify/api/v1/version")
            assert answer.status_code == 429


async def test_429_on_demand(prompt: Coolify) -> None:
    await prompt.faults(rateLimited={"times": 1, "retryAfter": 7, "endpoint": "GET /applications"})
    assert (await prompt.call("GET", "/version")).status_code == 200
    answer = await prompt.call("GET", "/applications")
    assert (answer.status_code, answer.headers["Retry-After"]) == (429, "7")
    assert (await prompt.call("GET", "/applications")).status_code == 200


async def test_failed_calls_are_limited_by_some_versions(prompt: Coolify) -> None:
    """Point 11."""
    await prompt.faults(failedCallLimit=True)
    statuses = [(await prompt.call("GET", "/applications/none")).status_code for _ in range(31)]
    assert statuses == [404] * 30 + [429]
    assert (await prompt.call("GET", "/applications")).status_code == 200


async def test_open_deployments_as_an_object(prompt: Coolify) -> None:
    """Point 15."""
    deployment = await prompt.start(await prompt.create())
    await prompt.faults(deploymentsAsObject=True)
    listed = await prompt.get("/deployments")
    assert list(listed) == ["1"]
    assert listed["1"]["deployment_uuid"] == deployment


@pytest.mark.parametrize("verb", ["start", "restart", "stop"])
async def test_before_and_since_4_2(prompt: Coolify, verb: str) -> None:
    """Point 16."""
    uuid = await prompt.create()
    refused = await prompt.call("GET", f"/applications/{uuid}/{verb}")
    assert (refused.status_code, refused.headers["Allow"]) == (405, "POST")
    assert (await prompt.call("GET", "/version")).text.startswith("4.3.")
    await prompt.faults(versionBefore42=True)
    assert (await prompt.call("GET", "/version")).text.startswith("4.1.")
    for method in ("GET", "POST"):
        answer = await prompt.call(method, f"/applications/{uuid}/{verb}")
        assert answer.status_code == 200


async def test_deployments_of_an_application_newest_first() -> None:
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
