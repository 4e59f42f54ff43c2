"""The server conforms to its OpenAPI document: schemathesis sends valid and invalid requests.

Schemathesis calls every operation with an admin's key, and those for containers with an agent's
token. The run is deterministic.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.http_server import Server, bearer, environment, served
from tests.support.postgres import TestPostgres

SCHEMATHESIS = Path(sys.executable).with_name("schemathesis")
PROBLEM = "application/problem+json"
CALL_TIMEOUT_S = 60.0
TIMEOUT_S = 360.0  # for a busy machine

# Responses of 401 alone would test nothing, so they fail the run.
# Valid requests may get 422, as the document cannot express three rules: a link without a known
# host needs a pool name, JSON may contain no NUL, and its size is counted in bytes.
CONFIGURATION = """
continue-on-failure = true
request-timeout = 20
warnings.fail-on = ["missing_auth", "unmatched_filter"]

[generation]
deterministic = true
max-examples = {examples}
no-shrink = true

[checks]
not_a_server_error.expected-statuses = ["2xx", "3xx", "4xx", 503]
use_after_free.enabled = false  # DELETE stops a bot, which can still be read
positive_data_acceptance.expected-statuses = ["2xx", 404, 409, 503]

# This phase takes ids from answers, also the absent bot of a slot's history: it asks for bot None.
[phases.stateful.checks]
positive_data_acceptance.expected-statuses = ["2xx", 404, 409, 422, 503]

[dictionaries.ids]
values = [1, 2, 3, 4]

[dictionaries.pools]
values = ["google-meet", "teams", "zoom"]

[parameters]
"path.id" = {{ dictionary = "ids", probability = 0.6 }}
"path.platform" = {{ dictionary = "pools", probability = 0.6 }}

[headers]
Authorization = "Bearer {admin}"

# The run must not revoke or rotate its own key.
[[operations]]
include-operation-id = ["{revoke_key}", "{rotate_key}"]
parameters = {{ "path.id" = {spare_key} }}

# Streams that would not end during the run, and a poll that accepts only the token of a standby.
[[operations]]
include-operation-id = ["{stream_events}", "{wait_for_assignment}"]
enabled = false

# The output of a bot that runs, read once.
[[operations]]
include-operation-id = "{bot_logs}"
parameters = {{ "query.follow" = false, "path.id" = {bot} }}

[[operations]]
include-operation-id = ["{create_bot}", "{record_events}", "{send_command}", "{heartbeat}"]
checks.positive_data_acceptance.expected-statuses = ["2xx", 404, 409, 422, 503]

# A schema cannot say: one of the fields, either field, a tenant or a time zone that exists.
[[operations]]
include-operation-id = ["{update_bot}", "{replay_webhook}", "{create_webhook}", "{plan_pool}"]
checks.positive_data_acceptance.expected-statuses = ["2xx", 404, 409, 422, 503]

# Bytes that are no picture.
[[operations]]
include-operation-id = "{add_screenshot}"
checks.positive_data_acceptance.expected-statuses = ["2xx", 404, 413, 415, 503]
checks.negative_data_rejection.enabled = false  # after the release, nothing reads the body

# A key needs a tenant that exists.
[[operations]]
include-operation-id = "{create_key}"
checks.positive_data_acceptance.expected-statuses = ["2xx", 404, 409, 422, 503]

[[operations]]
include-path = "/v1/agent/vexa/status_change"
headers = {{ Authorization = "Bearer {agent}" }}

# The document describes the characters of a cursor, not those that a page has returned.
[[operations]]
include-operation-id = {lists}
checks.positive_data_acceptance.expected-statuses = ["2xx", 404, 422, 503]

[[operations]]
include-path = "/v1/agent/slot"
headers = {{ Authorization = "Bearer {agent}" }}
parameters = {{ "query.containerId" = "{container}" }}

[[operations]]
include-path-regex = "^/v1/agent/bots/"
headers = {{ Authorization = "Bearer {agent}" }}
parameters = {{ "path.id" = {bot} }}
"""


@pytest.fixture(scope="module")
def server(
    postgres: TestPostgres, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    url = postgres.create_database(template)
    with served(url, tmp_path_factory.mktemp("served")) as server:
        yield server
    postgres.drop_database(url)


@pytest.fixture(scope="module")
def document(server: Server) -> dict[str, Any]:
    document: dict[str, Any] = httpx.get(
        f"{server.url}/openapi.json", timeout=CALL_TIMEOUT_S
    ).json()
    return document


def paged(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The operations that take a cursor."""
    found = [
        operation
        for _, _, operation in operations(document)
        if any(each["name"] == "cursor" for each in operation.get("parameters", ()))
    ]
    assert len(found) >= 6
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method.upper(), path, operation


@pytest.mark.timeout(TIMEOUT_S + 60)
def test_responses_conform_to_the_openapi_document(
    server: Server, document: dict[str, Any], tmp_path: Path
) -> None:
    spare_key, admin = server.new_key("user"), server.new_key("admin")
    bot = start_bot(server, admin)
    for name in ("teams", "zoom"):
        send_bot(server, admin, platform=name)
    names = {
        operation["operationId"].partition("_v1_")[0]: operation["operationId"]
        for _, _, operation in operations(document)
    }
    response = httpx.get(f"{server.url}/v1/keys", headers=bearer(admin), timeout=CALL_TIMEOUT_S)
    listed = response.json()["keys"]
    configuration = tmp_path / "schemathesis.toml"
    configuration.write_text(
        CONFIGURATION.format(
            examples=10,
            admin=admin,
            agent=server.token(bot["id"]),
            bot=bot["id"],
            container=bot["containerId"],
            lists=json.dumps([operation["operationId"] for operation in paged(document)]),
            spare_key=next(key["id"] for key in listed if spare_key.startswith(key["prefix"])),
            **{
                name: names[name]
                for name in (
                    "revoke_key",
                    "rotate_key",
                    "bot_logs",
                    "create_bot",
                    "send_command",
                    "heartbeat",
                    "add_screenshot",
                    "create_key",
                    "record_events",
                    "stream_events",
                    "update_bot",
                    "replay_webhook",
                    "create_webhook",
                    "plan_pool",
                    "wait_for_assignment",
                )
            },
        )
    )
    run = subprocess.run(
        [SCHEMATHESIS, f"--config-file={configuration}", "run", f"{server.url}/openapi.json"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert run.returncode == 0, run.stdout[-20_000:]


def test_every_error_is_documented_as_a_problem(document: dict[str, Any]) -> None:
    wrong = [
        (method, path, status)
        for method, path, operation in operations(document)
        for status, answer in operation["responses"].items()
        if int(status) >= 400 and path != "/readyz" and set(answer["content"]) != {PROBLEM}
    ]
    assert not wrong
    shape = document["components"]["schemas"]["Problem"]
    assert set(shape["required"]) == {"title", "status", "detail"}
    assert set(shape["properties"]) == {
        "type", "title", "status", "detail", "limit", "errors",
    }  # fmt: skip
    assert not {"HTTPValidationError", "ValidationError"} & set(document["components"]["schemas"])


def test_every_operation_documents_its_security(document: dict[str, Any]) -> None:
    schemes = document["components"]["securitySchemes"]
    assert schemes["key"]["type"] == schemes["agentToken"]["type"] == "http"
    assert schemes["key"]["scheme"] == schemes["agentToken"]["scheme"] == "bearer"
    assert schemes["keyHeader"] == {"type": "apiKey", "in": "header", "name": "X-API-Key"}
    assert (schemes["session"]["in"], schemes["session"]["type"]) == ("cookie", "apiKey")
    users: list[dict[str, list[str]]] = [{"key": []}, {"keyHeader": []}, {"session": []}]
    for method, path, operation in operations(document):
        if path == "/v1/agent/assignment":
            expected: Any = [{"standbyToken": []}]
        elif path.startswith("/v1/agent/"):
            expected = [{"agentToken": []}]
        elif path in ("/healthz", "/readyz") or (method, path) == ("DELETE", "/v1/session"):
            expected = None
        else:
            expected = users
        assert operation.get("security") == expected, (method, path)
        if expected:
            assert "401" in operation["responses"], (method, path)


def test_document_has_formats_and_limits(document: dict[str, Any]) -> None:
    shapes = document["components"]["schemas"]
    for name, shape in shapes.items():
        for field, described in shape.get("properties", {}).items():
            if field.endswith("At") or field == "at":
                kinds = described.get("anyOf", [described])
                assert {"type": "string", "format": "date-time"} in [
                    {key: kind[key] for key in ("type", "format") if key in kind} for kind in kinds
                ], (name, field)
    request = shapes["BotCreate"]["properties"]
    assert shapes["BotCreate"]["required"] == ["meetingUrl"]
    assert shapes["BotCreate"]["additionalProperties"] is False
    assert request["meetingUrl"]["maxLength"] == 2048
    assert request["botDisplayName"] == request["botDisplayName"] | {
        "default": "Botpool",
        "minLength": 1,
        "maxLength": 100,
    }
    assert request["platform"]["enum"] == ["google-meet", "teams", "zoom", None]
    assert request["queueTimeoutMs"] == request["queueTimeoutMs"] | {
        "default": 300_000,
        "minimum": 0,
        "maximum": 600_000,
    }
    assert request["priority"]["default"] == 100


def start_bot(server: Server, key: str) -> dict[str, Any]:
    bot = send_bot(server, key)
    while bot["status"] in ("QUEUED", "DEPLOYING"):
        time.sleep(0.05)
        url = f"{server.url}/v1/bots/{bot['id']}"
        bot = httpx.get(url, headers=bearer(key), timeout=CALL_TIMEOUT_S).json()["bot"]
    assert bot["status"] == "JOINING_CALL", bot
    return bot


def send_bot(server: Server, key: str, **fields: str) -> dict[str, Any]:
    body = {"meetingUrl": "https://meet.google.com/abc-defg-hij"} | fields
    answer = httpx.post(
        f"{server.url}/v1/bots", json=body, headers=bearer(key), timeout=CALL_TIMEOUT_S
    )
    assert answer.status_code == 201, answer.text
    bot: dict[str, Any] = answer.json()["bot"]
    return bot
