"""Pulls from a private registry."""

import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from botpool.domain.errors import BackendRefused
from botpool.domain.ids import AssignmentId
from tests.backends.docker_harness import DockerHarness
from tests.backends.harness import SPEC, TIMEOUT_S, eventually, start_request
from tests.support.docker_host import publish
from tests.support.dockerd import Dockerd
from tests.support.fences import NO_ASSIGNMENT
from tests.support.registry import PASSWORD, USER, Registry, encoded

FIRST = AssignmentId(11)
PROGRAM = Path(__file__).with_name("container_program.py")
HELPER = f"""\
#!/bin/sh
read -r registry
[ "$1" = get ] && [ "$registry" = "$KNOWN" ] || {{ echo "credentials not found"; exit 1; }}
echo '{{"ServerURL": "'"$KNOWN"'", "Username": "{USER}", "Secret": "{PASSWORD}"}}'
"""


@pytest.fixture(scope="module")
def private() -> Iterator[Registry]:
    with Registry(is_private=True) as registry:
        yield registry


@pytest.fixture
def image(dockerd: Dockerd, private: Registry) -> str:
    return publish(dockerd, private, secrets.token_hex(4), PROGRAM, mb=1)


@pytest.fixture(autouse=True)
def helpers(tmp_path: Path, private: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a credential helper for the registry as `docker-credential-known`."""
    program = tmp_path / "bin" / "docker-credential-known"
    program.parent.mkdir()
    program.write_text(HELPER)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("KNOWN", private.address)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))


def log_in(folder: Path, config: Any) -> None:
    (folder / "config.json").write_text(json.dumps(config))


async def start(harness: DockerHarness, image: str) -> None:
    backend = await harness.open_backend()
    container_id = await backend.ensure(
        replace(SPEC, image=image), stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S
    )
    await backend.start(start_request(harness, container_id, FIRST), timeout_s=60)


async def test_docker_login_authorizes_pull(
    docker_harness: DockerHarness, private: Registry, image: str, tmp_path: Path
) -> None:
    log_in(tmp_path, {"auths": {private.address: {"auth": encoded(USER, PASSWORD)}}})
    await start(docker_harness, image)
    await eventually(lambda: docker_harness.runs(FIRST))


@pytest.mark.long
async def test_credential_helper_authorizes_pull(
    docker_harness: DockerHarness, private: Registry, image: str, tmp_path: Path
) -> None:
    log_in(tmp_path, {"credHelpers": {private.address: "known"}, "auths": {private.address: {}}})
    await start(docker_harness, image)
    await eventually(lambda: docker_harness.runs(FIRST))


@pytest.mark.parametrize("password", [None, pytest.param("guess", marks=pytest.mark.long)])
async def test_pull_without_valid_credentials_is_refused(
    docker_harness: DockerHarness,
    private: Registry,
    image: str,
    tmp_path: Path,
    password: str | None,
) -> None:
    if password is not None:
        log_in(tmp_path, {"auths": {private.address: {"auth": encoded(USER, password)}}})
    with pytest.raises(BackendRefused, match=r"^pools\.teams\.image: "):
        await start(docker_harness, image)
    assert not docker_harness.runs(FIRST)
