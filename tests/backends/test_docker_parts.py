"""The pure parts of the Docker backend: complaints, credentials, hosts, words for an end."""

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

from botpool.backends.docker import places, refusals
from botpool.backends.docker.connection import connect
from botpool.backends.docker.credentials import credentials_for, full_name
from botpool.backends.docker.looking import ending
from botpool.backends.docker.places import Kind
from botpool.domain.errors import BackendRefused, BackendUnavailable, BotpoolError
from botpool.domain.ids import AssignmentId, ContainerId
from tests.backends.harness import SPEC

HUB = "https://index.docker.io/v1/"
TOLD = {"username": "bot", "password": "open:sesame"}
AUTH = base64.b64encode(b"bot:open:sesame").decode()


@pytest.mark.parametrize(
    "said",
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
def test_what_a_registry_refuses_is_for_somebody_to_put_right(said: str) -> None:
    refusal = refusals.not_pulled(said, SPEC)
    assert isinstance(refusal, BackendRefused)
    assert str(refusal).startswith("pools.teams.image: bot:1 cannot be pulled.")
    assert said in str(refusal)


@pytest.mark.parametrize(
    "said",
    [
        "Get https://registry.example/v2/: dial tcp: lookup registry.example: no such host",
        "Get http://127.0.0.1:5000/v2/: dial tcp 127.0.0.1:5000: connect: connection refused",
        "Get https://ghcr.io/v2/: net/http: TLS handshake timeout",
        "toomanyrequests: You have reached your pull rate limit.",
        "received unexpected HTTP status: 502 Bad Gateway",
    ],
)
def test_what_may_pass_by_itself_is_waited_for(said: str) -> None:
    assert isinstance(refusals.not_pulled(said, SPEC), BackendUnavailable)


@pytest.mark.parametrize(
    ("status", "said", "expected"),
    [
        (500, "mkdir /var/lib/docker/x: no space left on device", "backends.docker.host: "),
        (404, "network botpool not found", "backends.docker.network: "),
        (400, "OCI runtime create failed: exec: no such file", "pools.teams.image: "),
        (400, "Range of CPUs is from 0.01 to 2.00", "pools.teams: "),
        (500, "permission denied while connecting to the socket", "backends.docker.host: "),
    ],
)
def test_what_docker_refuses_names_its_setting(status: int, said: str, expected: str) -> None:
    refusal = refusals.not_made(DockerError(status, said), SPEC)
    assert isinstance(refusal, BackendRefused)
    assert str(refusal).startswith(expected)
    assert said in str(refusal)


def test_docker_in_trouble_is_nobodys_setting() -> None:
    error = DockerError(500, "context deadline exceeded")
    assert isinstance(refusals.not_made(error, SPEC), BackendUnavailable)


@pytest.mark.parametrize(
    ("details", "said"),
    [
        ({"ExitCode": 137, "OOMKilled": True}, "ran out of memory (2048 MB)"),
        ({"ExitCode": 128, "Error": "no such device"}, "ended with an error of Docker: no such"),
        ({"ExitCode": 128 + signal.SIGSEGV}, "killed by SIGSEGV"),
        ({"ExitCode": 3}, "exited with code 3"),
        ({"ExitCode": 255}, "exited with code 255"),
    ],
)
def test_an_end_is_told_in_words(details: dict[str, Any], said: str) -> None:
    assert ending(details, memory_mb=2048).startswith(said)


def listed(state: str) -> dict[str, Any]:
    """As Docker shows one that has our mark, and nothing else of ours."""
    labels = {places.INSTALLATION: "one", places.SLOT: SPEC.name}
    return {"Id": "0123456789abcdef", "Names": ["/x"], "Labels": labels, "State": state}


def test_what_has_our_label_and_cannot_be_read_is_named() -> None:
    """It is not passed over: that would be to say that the place is free."""
    with pytest.raises(BackendUnavailable, match="container 0123456789ab has our label"):
        places.read(listed("running"))


def test_what_docker_is_removing_stands_for_nothing() -> None:
    assert places.read(listed("removing")) is None


def test_the_greatest_assignment_decides_and_of_one_what_came_last() -> None:
    """A pull comes before its bot, and a bot before the mark that it was stopped."""
    order = [(9, Kind.VACANT), (10, Kind.PENDING), (10, Kind.BOT), (10, Kind.VACANT)]
    containers = [
        places.Container(
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
        assert places.place_of(ContainerId("x"), shuffled).containers == containers


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
def test_an_image_has_a_registry_whether_it_names_it_or_not(image: str, full: str) -> None:
    assert full_name(image) == full


@pytest.mark.parametrize(
    ("image", "config", "expected"),
    [
        ("ghcr.io/acme/bot:1", {"auths": {"ghcr.io": {"auth": AUTH}}}, TOLD),
        ("ghcr.io/acme/bot:1", {"auths": {"https://ghcr.io/v1/": {"auth": AUTH}}}, TOLD),
        ("ghcr.io/acme/bot:1", {"auths": {HUB: {"auth": AUTH}}}, None),
        ("acme/bot:1", {"auths": {HUB: {"auth": AUTH}}}, TOLD),
        ("python:3.11", {"auths": {HUB: {"auth": AUTH}}}, TOLD),
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
def test_what_docker_login_left_is_found(
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
        ({"credsStore": "known"}, TOLD),
        ({"credHelpers": {"ghcr.io": "known"}, "credsStore": "unknowing"}, TOLD),
        ({"credHelpers": {"quay.io": "known"}}, None),
        ({"credsStore": "gives-a-token"}, {"identitytoken": "t"}),
        ({"credsStore": "unknowing", "auths": {"ghcr.io": {"auth": AUTH}}}, TOLD),
        ({"credsStore": "not-installed", "auths": {"ghcr.io": {"auth": AUTH}}}, TOLD),
        ({"credsStore": "babbling"}, None),
    ],
)
def test_credential_helpers_are_asked_first(
    config: Any,
    expected: dict[str, str] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = {
        "known": '{"Username": "bot", "Secret": "open:sesame"}',
        "gives-a-token": '{"Username": "<token>", "Secret": "t"}',
        "babbling": "good morning",
    }
    for name, answer in answers.items():
        asked = f"[ \"$1 $(cat)\" = 'get ghcr.io' ] && echo '{answer}'"
        install(tmp_path / f"docker-credential-{name}", asked)
    install(tmp_path / "docker-credential-unknowing", "echo credentials not found; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert credentials_for("ghcr.io/acme/bot:1") == expected


def install(program: Path, script: str) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("ssh://botpool@10.0.0.6", r"aiodocker\[ssh\]"),
        ("nonsense", "cannot be used: "),
    ],
)
async def test_a_host_that_cannot_be_used_names_its_setting(host: str, expected: str) -> None:
    with pytest.raises(BackendRefused, match=rf"^backends\.docker\.host: .*{expected}"):
        connect(host)


async def test_where_there_is_no_daemon_it_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be installed later; until then it is said what to do."""
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
async def test_the_daemon_is_the_one_that_dockers_command_would_ask(
    environment: dict[str, str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`docker context use far`, and nobody knows it: who asks it is told."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    (tmp_path / ".docker").mkdir()
    (tmp_path / ".docker" / "config.json").write_text('{"currentContext": "far"}')
    try:
        async with connect(None) as docker:
            asked = docker.docker_host
    except BotpoolError as error:
        asked = str(error)
    assert expected in asked
