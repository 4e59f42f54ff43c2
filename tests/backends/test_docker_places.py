"""What may stand at a daemon for one slot after crashes and crossings, and what becomes of it."""

import time
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from aiodocker import DockerError
from aiodocker.docker import DockerContainer

from botpool.backends.docker import places
from botpool.backends.docker.connection import Connection
from botpool.backends.docker.daemon import Crossed, Daemon
from botpool.backends.docker.places import Draft, Kind
from botpool.backends.docker.vacancy import IMAGE as VACANT
from botpool.domain.errors import (
    BackendRefused,
    BackendUnavailable,
    StartSuperseded,
    StillRunning,
)
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import ContainerState
from tests.backends.docker_harness import DockerHarness
from tests.backends.harness import SPEC, TIMEOUT_S, look, order, running, seen_down

FIRST, SECOND = AssignmentId(11), AssignmentId(12)


def put(harness: DockerHarness, container_id: ContainerId, kind: Kind, number: int) -> None:
    """What a control plane made for that assignment before it died."""
    draft = Draft(kind=kind, assignment_id=AssignmentId(number), spec=SPEC)
    body = {
        "Image": SPEC.image if kind is Kind.BOT else VACANT,
        "Cmd": ["x"],
        "Labels": dict(draft.labels(harness.installation())),
    }
    name = f"{container_id}.left.{kind}.{number}"
    harness.dockerd.ask("POST", "/containers/create", body, name=name)


def standing(harness: DockerHarness) -> list[tuple[str, str]]:
    """Kind and assignment of each."""
    labels = [each["Labels"] for each in harness.containers()]
    return sorted((each["botpool.kind"], each["botpool.assignment"]) for each in labels)


async def test_a_start_that_meets_its_own_stop_takes_back_what_it_made(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.control_plane()
    container_id = await backend.ensure(SPEC, timeout_s=TIMEOUT_S)
    put(docker_harness, container_id, Kind.BOT, FIRST)
    put(docker_harness, container_id, Kind.VACANT, FIRST)
    with pytest.raises(StartSuperseded, match="was stopped"):
        await backend.start(order(docker_harness, container_id, FIRST), timeout_s=TIMEOUT_S)
    assert ("bot", str(FIRST)) not in standing(docker_harness)


async def test_a_stop_before_the_start_leaves_one_mark_and_nothing_else(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.control_plane()
    container_id = await backend.ensure(SPEC, timeout_s=TIMEOUT_S)
    put(docker_harness, container_id, Kind.BOT, FIRST)
    await backend.stop(container_id, FIRST, timeout_s=TIMEOUT_S)
    assert standing(docker_harness) == [("vacant", str(FIRST))]


async def test_a_late_stop_takes_away_what_a_late_start_could_still_hit(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.control_plane()
    container_id = await backend.ensure(SPEC, timeout_s=TIMEOUT_S)
    put(docker_harness, container_id, Kind.BOT, FIRST)
    put(docker_harness, container_id, Kind.PENDING, SECOND)
    await backend.stop(container_id, FIRST, timeout_s=TIMEOUT_S)
    assert ("bot", str(FIRST)) not in standing(docker_harness)
    assert ("pending", str(SECOND)) in standing(docker_harness)


async def test_what_was_stopped_stays_so_when_the_pool_changes(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.control_plane()
    container_id = await backend.ensure(SPEC, timeout_s=TIMEOUT_S)
    await backend.stop(container_id, FIRST, timeout_s=TIMEOUT_S)
    await backend.ensure(replace(SPEC, memory_mb=64), timeout_s=TIMEOUT_S)
    with pytest.raises(StartSuperseded, match="was stopped"):
        await backend.start(order(docker_harness, container_id, FIRST), timeout_s=TIMEOUT_S)


async def test_a_late_stop_leaves_the_next_bot_alone(docker_harness: DockerHarness) -> None:
    backend = await docker_harness.control_plane()
    container_id = await running(docker_harness, backend, SECOND)
    await backend.stop(container_id, FIRST, timeout_s=TIMEOUT_S)
    assert (await look(backend, container_id)).state is ContainerState.RUNNING
    assert standing(docker_harness) == [("bot", str(SECOND))]


async def test_a_late_stop_does_not_wait_for_the_end_of_the_next_bot(
    docker_harness: DockerHarness,
) -> None:
    """Whose own stop has made its mark, and died."""
    backend = await docker_harness.control_plane()
    container_id = await running(docker_harness, backend, SECOND)
    put(docker_harness, container_id, Kind.VACANT, SECOND)
    await backend.stop(container_id, FIRST, timeout_s=5)
    assert (await look(backend, container_id)).state is ContainerState.RUNNING


async def test_a_late_start_finds_the_next_bot_and_goes(docker_harness: DockerHarness) -> None:
    backend = await docker_harness.control_plane()
    container_id = await running(docker_harness, backend, SECOND, "exit 0")
    await seen_down(backend, container_id)
    with pytest.raises(StartSuperseded, match="serves assignment 12 now"):
        await backend.start(order(docker_harness, container_id, FIRST), timeout_s=TIMEOUT_S)
    assert standing(docker_harness) == [("bot", str(SECOND))]


@pytest.mark.parametrize("behaviour", [pytest.param("run", marks=pytest.mark.long), "exit 0"])
async def test_a_twin_never_runs(docker_harness: DockerHarness, behaviour: str) -> None:
    backend = await docker_harness.control_plane()
    container_id = await running(docker_harness, backend, FIRST, behaviour)
    if behaviour != "run":
        await seen_down(backend, container_id)
    put(docker_harness, container_id, Kind.BOT, FIRST)
    expected = ContainerState.RUNNING if behaviour == "run" else ContainerState.EXITED
    assert (await look(backend, container_id)).state is expected
    await backend.start(order(docker_harness, container_id, FIRST), timeout_s=TIMEOUT_S)
    assert standing(docker_harness) == [("bot", str(FIRST))]
    assert len(docker_harness.runs(FIRST)) == 1


async def test_what_is_paused_has_not_ended(docker_harness: DockerHarness) -> None:
    backend = await docker_harness.control_plane()
    container_id = await running(docker_harness, backend, FIRST)
    docker_harness.dockerd.ask("POST", f"/containers/{container_id}/pause")
    assert (await look(backend, container_id)).state is ContainerState.RUNNING
    with pytest.raises(StartSuperseded, match="assignment 11 runs in it"):
        await backend.start(order(docker_harness, container_id, SECOND), timeout_s=TIMEOUT_S)
    docker_harness.dockerd.ask("POST", f"/containers/{container_id}/unpause")


async def test_nothing_is_handed_out_that_does_not_end(docker_harness: DockerHarness) -> None:
    backend = await docker_harness.control_plane()
    await running(docker_harness, backend, FIRST)
    with (
        mock.patch.object(DockerContainer, "stop", mock.AsyncMock()),
        pytest.raises(StillRunning),
    ):
        await backend.ensure(SPEC, timeout_s=TIMEOUT_S)


async def test_what_is_replaced_under_our_eyes_is_no_evidence(
    docker_harness: DockerHarness,
) -> None:
    backend = await docker_harness.control_plane()
    container_id = await running(docker_harness, backend, FIRST, "exit 0")
    await seen_down(backend, container_id)
    with mock.patch.object(Daemon, "details", mock.AsyncMock(side_effect=Crossed)):
        assert (await look(backend, container_id)).state is ContainerState.UNKNOWN


async def test_who_was_frozen_in_a_call_sends_nothing_more(docker_harness: DockerHarness) -> None:
    config = docker_harness.config()
    late = Daemon(
        connection=Connection(config), config=config, call="start", ends_at=time.monotonic()
    )
    with pytest.raises(BackendUnavailable, match="start did not end in time"):
        await late.places()
    assert docker_harness.line.connections == 0


async def test_a_daemon_that_hangs_is_no_evidence(docker_harness: DockerHarness) -> None:
    backend = await docker_harness.control_plane()
    container_id = await running(docker_harness, backend, FIRST)
    docker_harness.line.deafen()
    with pytest.raises(BackendUnavailable, match="look did not end within"):
        await backend.observe([container_id], timeout_s=0.2)


async def test_half_an_answer_is_no_evidence(docker_harness: DockerHarness) -> None:
    backend = await docker_harness.control_plane()
    container_id = await running(docker_harness, backend, FIRST)
    with docker_harness.line.broken_off(), pytest.raises(BackendUnavailable):
        await look(backend, container_id)
    with docker_harness.line.broken_off(), pytest.raises(BackendUnavailable):
        await backend.list_owned(timeout_s=TIMEOUT_S)
    assert (await look(backend, container_id)).state is ContainerState.RUNNING


async def test_what_runs_is_not_removed_even_if_it_looks_as_if_it_had_ended(
    docker_harness: DockerHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = await docker_harness.control_plane()
    container_id = await running(docker_harness, backend, FIRST)
    read = places.read

    def mistaken(listed: Any) -> places.Container | None:
        return read({**listed, "State": listed["State"].replace("running", "exited")})

    with monkeypatch.context() as patch:
        patch.setattr(places, "read", mistaken)
        with pytest.raises(BackendUnavailable, match="start did not end"):
            await backend.start(order(docker_harness, container_id, SECOND), timeout_s=0.5)
    assert (await look(backend, container_id)).assignment_id == FIRST
    assert not docker_harness.runs(SECOND)


@pytest.mark.parametrize(
    ("step", "status", "said"),
    [
        ("start", 404, "No such container: abc"),
        ("start", 409, "container is marked for removal and cannot be started"),
        ("rename", 400, "Renaming a container with the same name as its current name"),
        ("delete", 409, "removal of container abc is already in progress"),
        ("delete", 500, "unable to remove filesystem for abc: directory not empty"),
    ],
)
async def test_a_step_that_crosses_anothers_is_made_again(
    docker_harness: DockerHarness, step: str, status: int, said: str
) -> None:
    backend = await docker_harness.control_plane()
    container_id = await backend.ensure(SPEC, timeout_s=TIMEOUT_S)
    taken = getattr(DockerContainer, step)
    crossed = []

    async def crosses_once(container: DockerContainer, *arguments: Any, **options: Any) -> Any:
        if not crossed:
            crossed.append(container)
            raise DockerError(status, said)
        return await taken(container, *arguments, **options)

    with mock.patch.object(DockerContainer, step, crosses_once):
        await backend.start(order(docker_harness, container_id, FIRST), timeout_s=TIMEOUT_S)
    assert crossed
    assert standing(docker_harness) == [("bot", str(FIRST))]


@pytest.mark.parametrize("name", ["a.b", "-a", "a/b", ""])
async def test_a_name_that_docker_would_not_take_is_refused(
    docker_harness: DockerHarness, name: str
) -> None:
    backend = await docker_harness.control_plane()
    with pytest.raises(BackendRefused, match="cannot name a container"):
        await backend.ensure(replace(SPEC, name=name), timeout_s=TIMEOUT_S)
