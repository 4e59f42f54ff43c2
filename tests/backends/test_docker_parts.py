"""Pure functions of the Docker backend: errors, credentials, hosts and exit reasons."""

import base64
import json
import os
import signal
from itertools import permutations
from pathlib import Path
from typing import Any

import aiodocker
import pytest
from aiodocker import DockerError

from botpool.backends.docker import error_messages, slot_containers
from botpool.backends.docker.connection import connect
from botpool.backends.docker.credentials import credentials_for, full_name
from botpool.backends.docker.observe import exit_reason
from botpool.backends.docker.slot_containers import ContainerKind
from botpool.domain.errors import BackendRefused, BackendUnavailable, BotpoolError
from botpool.domain.ids import AssignmentId, ContainerId
from tests.backends.harness import SPEC

HUB = "https://index.docker.io/v1/"
CREDENTIALS = {"username": "bot", "password": "open:sesame"}
AUTH = base64.b64encode(b"bot:open:sesame").decode()


@pytest.mark.parametrize(
    "message",
    [
        "manifest for 127.0.0.1:5000/bot:1 not found: manifest unknown: manifest unknown",
        "pull access denied for acme/bot, repository does not exist or may require 'docker login'",
        "Head https://ghcr.io/v2/acme/bot/manifests/1: unauthorized",
        "unexpected status from HEAD request to https://ghcr.io/v2/acme/bot: 403 Forbidden",
        "Get https://registry.example/v2/bot/manifests/1: no basic auth credentials",
        "no matching manifest for linux/amd64 in the manifest list entries",
        "invalid reference format: repository name must be lowercase",
    ],
)
def test_registry_rejection_names_the_image_setting(message: str) -> None:
    refusal = error_messages.pull_failed(message, SPEC)
    assert isinstance(refusal, BackendRefused)
    assert str(refusal).startswith("pools.teams.image: bot:1 cannot be pulled.")
    assert message in str(refusal)


@pytest.mark.parametrize(
    "message",
    [
        "Get https://registry.example/v2/: dial tcp: lookup registry.example: no such host",
        "Get http://127.0.0.1:5000/v2/: dial tcp 127.0.0.1:5000: connect: connection refused",
        "Get https://ghcr.io/v2/: net/http: TLS handshake timeout",
        "toomanyrequests: You have reached your pull rate limit.",
        "received unexpected HTTP status: 502 Bad Gateway",
    ],
)
def test_temporary_pull_failure_is_unavailable(message: str) -> None:
    assert isinstance(error_messages.pull_failed(message, SPEC), BackendUnavailable)


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (500, "mkdir /var/lib/docker/x: no space left on device", "backends.docker.host: "),
        (404, "network botpool not found", "backends.docker.network: "),
        (400, "OCI runtime create failed: exec: no such file", "pools.teams.image: "),
        (400, "Range of CPUs is from 0.01 to 2.00", "pools.teams: "),
        (500, "permission denied while connecting to the socket", "backends.docker.host: "),
    ],
)
def test_rejected_create_names_its_setting(status: int, message: str, expected: str) -> None:
    refusal = error_messages.create_or_start_failed(DockerError(status, message), SPEC)
    assert isinstance(refusal, BackendRefused)
    assert str(refusal).startswith(expected)
    assert message in str(refusal)


def test_internal_error_of_docker_is_unavailable() -> None:
    error = DockerError(500, "context deadline exceeded")
    assert isinstance(error_messages.create_or_start_failed(error, SPEC), BackendUnavailable)


@pytest.mark.parametrize(
    ("details", "message"),
    [
        ({"ExitCode": 137, "OOMKilled": True}, "ran out of memory (2048 MB)"),
        ({"ExitCode": 128, "Error": "no such device"}, "ended with an error of Docker: no such"),
        ({"ExitCode": 128 + signal.SIGSEGV}, "killed by SIGSEGV"),
        ({"ExitCode": 3}, "exited with code 3"),
        ({"ExitCode": 255}, "exited with code 255"),
    ],
)
def test_exit_reason_is_described(details: dict[str, Any], message: str) -> None:
    assert exit_reason(details, memory_mb=2048).startswith(message)


def listed(state: str) -> dict[str, Any]:
    """Return a list entry with our installation label and without our other labels."""
    labels = {slot_containers.INSTALLATION_LABEL: "one", slot_containers.SLOT_LABEL: SPEC.name}
    return {"Id": "0123456789abcdef", "Names": ["/x"], "Labels": labels, "State": state}


def test_container_with_invalid_labels_is_reported() -> None:
    """Ignoring the container would mean that the slot is free."""
    with pytest.raises(BackendUnavailable, match="container 0123456789ab has the label"):
        slot_containers.parse_container(listed("running"))


def test_container_being_removed_is_ignored() -> None:
    assert slot_containers.parse_container(listed("removing")) is None


def test_containers_are_ordered_by_assignment_and_kind() -> None:
    """Pending comes before bot, and bot before placeholder."""
    order = [
        (9, ContainerKind.PLACEHOLDER),
        (10, ContainerKind.PENDING),
        (10, ContainerKind.BOT),
        (10, ContainerKind.PLACEHOLDER),
    ]
    containers = [
        slot_containers.Container(
            docker_id=f"{number}-{kind}",
            name="x",
            kind=kind,
            assignment_id=AssignmentId(number),
            spec=SPEC,
            state="created",
        )
        for number, kind in order
    ]
    for shuffled in permutations(containers):
        assert slot_containers.ordered(ContainerId("x"), shuffled).containers == containers


@pytest.mark.parametrize(
    ("image", "full"),
    [
        ("bot:1", "docker.io/library/bot:1"),
        ("acme/bot:1", "docker.io/acme/bot:1"),
        ("docker.io/acme/bot", "docker.io/acme/bot"),
        ("localhost/bot", "localhost/bot"),
        ("ghcr.io/acme/bot@sha256:abc", "ghcr.io/acme/bot@sha256:abc"),
        ("registry:5000/bot:1", "registry:5000/bot:1"),
    ],
)
def test_full_image_name_includes_registry(image: str, full: str) -> None:
    assert full_name(image) == full


@pytest.mark.parametrize(
    ("image", "config", "expected"),
    [
        ("ghcr.io/acme/bot:1", {"auths": {"ghcr.io": {"auth": AUTH}}}, CREDENTIALS),
        ("ghcr.io/acme/bot:1", {"auths": {"https://ghcr.io/v1/": {"auth": AUTH}}}, CREDENTIALS),
        ("ghcr.io/acme/bot:1", {"auths": {HUB: {"auth": AUTH}}}, None),
        ("acme/bot:1", {"auths": {HUB: {"auth": AUTH}}}, CREDENTIALS),
        ("python:3.11", {"auths": {HUB: {"auth": AUTH}}}, CREDENTIALS),
        (
            "acme.azurecr.io/bot:1",
            {"auths": {"acme.azurecr.io": {"auth": AUTH, "identitytoken": "t"}}},
            {"identitytoken": "t"},
        ),
        ("ghcr.io/acme/bot:1", {"auths": {"ghcr.io": {}}}, None),
        ("ghcr.io/acme/bot:1", {"auths": {"ghcr.io": {"auth": "?"}}}, None),
        ("ghcr.io/acme/bot:1", {"auths": []}, None),
        ("ghcr.io/acme/bot:1", [], None),
    ],
)
def test_credentials_of_docker_login_are_found(
    image: str,
    config: Any,
    expected: dict[str, str] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    assert credentials_for(image) is None
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert credentials_for(image) == expected


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"credsStore": "known"}, CREDENTIALS),
        ({"credHelpers": {"ghcr.io": "known"}, "credsStore": "unknowing"}, CREDENTIALS),
        ({"credHelpers": {"quay.io": "known"}}, None),
        ({"credsStore": "gives-a-token"}, {"identitytoken": "t"}),
        ({"credsStore": "unknowing", "auths": {"ghcr.io": {"auth": AUTH}}}, CREDENTIALS),
        ({"credsStore": "not-installed", "auths": {"ghcr.io": {"auth": AUTH}}}, CREDENTIALS),
        ({"credsStore": "babbling"}, None),
    ],
)
def test_credential_helper_is_preferred(
    config: Any,
    expected: dict[str, str] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replies = {
        "known": '{"Username": "bot", "Secret": "open:sesame"}',
        "gives-a-token": '{"Username": "<token>", "Secret": "t"}',
        "babbling": "good morning",
    }
    for name, reply in replies.items():
        script = f"[ \"$1 $(cat)\" = 'get ghcr.io' ] && echo '{reply}'"
        install(tmp_path / f"docker-credential-{name}", script)
    install(tmp_path / "docker-credential-unknowing", "echo credentials not found; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert credentials_for("ghcr.io/acme/bot:1") == expected


def install(program: Path, coolify: str) -> None:
    program.write_text(f"#!/bin/sh\n{coolify}\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("ssh://botpool@10.0.0.6", r"aiodocker\[ssh\]"),
        ("nonsense", "invalid address: "),
    ],
)
async def test_invalid_host_names_its_setting(host: str, expected: str) -> None:
    with pytest.raises(BackendRefused, match=rf"^backends\.docker\.host: .*{expected}"):
        connect(host)


async def test_missing_daemon_is_unavailable_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Docker may be installed later; the error says what to do."""
    monkeypatch.setattr(aiodocker.docker, "_sock_search_paths", [])
    monkeypatch.setattr(Path, "home", lambda: Path("/nonexistent"))
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(BackendUnavailable, match=r"such as unix:///run/docker\.sock"):
        connect(None)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"DOCKER_HOST": "tcp://10.0.0.6:2375"}, "tcp://10.0.0.6:2375"),
        ({"DOCKER_HOST": "tcp://10.0.0.6:2375", "DOCKER_CONTEXT": "far"}, "Context"),
        ({"DOCKER_HOST": ""}, "Context"),
        ({}, "Context"),
    ],
)
async def test_same_daemon_as_dockers_command(
    environment: dict[str, str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The current context `far` does not exist, so using it is an error."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text('{"currentContext": "far"}')
    try:
        async with connect(None) as docker:
            used = docker.docker_host
    except BotpoolError as error:
        used = str(error)
    assert expected in used
