"""Docker resolves a tag to the digest that its registry has now."""

import secrets
from dataclasses import replace
from pathlib import Path

import pytest

from botpool.backends.protocol import ImageResolver
from botpool.domain.errors import BackendUnavailable
from botpool.domain.ids import AssignmentId
from tests.backends.docker_harness import DockerHarness
from tests.backends.harness import SPEC, TIMEOUT_S, eventually, start_request
from tests.support.docker_host import BOT, publish
from tests.support.dockerd import Dockerd
from tests.support.fences import NO_ASSIGNMENT
from tests.support.registry import Registry

PROGRAM = Path(__file__).with_name("container_program.py")


async def run(harness: DockerHarness, image: str, assignment_id: AssignmentId) -> None:
    """Run an image until its program runs, then stop it."""
    backend = await harness.open_backend()
    container_id = await backend.ensure(
        replace(SPEC, image=image), stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S
    )
    await backend.start(start_request(harness, container_id, assignment_id), timeout_s=60)
    await eventually(lambda: harness.runs(assignment_id))
    await backend.stop(container_id, assignment_id, timeout_s=TIMEOUT_S)


async def test_tag_that_is_pushed_again_has_another_digest(
    docker_harness: DockerHarness, dockerd: Dockerd, registry: Registry
) -> None:
    tag = secrets.token_hex(4)
    image = publish(dockerd, registry, tag, PROGRAM, mb=1)
    backend = await docker_harness.open_backend()
    assert isinstance(backend, ImageResolver)
    first = await backend.resolve_image(image, timeout_s=TIMEOUT_S)
    assert first.startswith(f"{image}@sha256:")
    assert await backend.resolve_image(first, timeout_s=TIMEOUT_S) == first
    await run(docker_harness, first, AssignmentId(11))
    assert await backend.resolve_image(image, timeout_s=TIMEOUT_S) == first
    assert publish(dockerd, registry, tag, PROGRAM, mb=1) == image
    second = await backend.resolve_image(image, timeout_s=TIMEOUT_S)
    assert second.startswith(f"{image}@sha256:")
    assert second != first
    await run(docker_harness, second, AssignmentId(12))


async def test_image_of_this_host_alone_keeps_its_name(docker_harness: DockerHarness) -> None:
    backend = await docker_harness.open_backend()
    assert isinstance(backend, ImageResolver)
    assert await backend.resolve_image(BOT, timeout_s=TIMEOUT_S) == BOT


async def test_pulled_digest_keeps_its_tag_on_the_host(
    docker_harness: DockerHarness, dockerd: Dockerd, registry: Registry
) -> None:
    """So that the tag alone starts while the registry cannot be reached."""
    image = publish(dockerd, registry, secrets.token_hex(4), PROGRAM, mb=1)
    backend = await docker_harness.open_backend()
    assert isinstance(backend, ImageResolver)
    await run(
        docker_harness,
        await backend.resolve_image(image, timeout_s=TIMEOUT_S),
        AssignmentId(11),
    )
    status, _ = dockerd.request("GET", f"/images/{image}/json")
    assert status == 200


async def test_unknown_image_cannot_be_resolved(
    docker_harness: DockerHarness, registry: Registry
) -> None:
    backend = await docker_harness.open_backend()
    assert isinstance(backend, ImageResolver)
    missing = f"{registry.address}/nowhere:1"
    with pytest.raises(BackendUnavailable, match="registry"):
        await backend.resolve_image(missing, timeout_s=TIMEOUT_S)
