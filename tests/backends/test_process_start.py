"""What a program of the process backend gets, how long it takes, and what is kept of it."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
import uvloop

from botpool.backends.process import launcher
from botpool.backends.process.directory import Directory
from botpool.backends.process.start import judge
from botpool.domain.errors import BackendRefused, BackendUnavailable, StartSuperseded
from botpool.domain.ids import AssignmentId
from botpool.domain.observation import ContainerState
from tests.backends.conformance import FIRST, SECOND, ensure, stop
from tests.backends.harness import (
    SPEC,
    TIMEOUT_S,
    eventually,
    look,
    order,
    output,
    running,
    seen,
    seen_down,
)
from tests.backends.process_harness import ProcessHarness


async def test_a_program_gets_its_order_and_none_of_our_secrets(
    process_harness: ProcessHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://bot:password@db")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    backend = await process_harness.control_plane()
    container_id = await running(process_harness, backend, FIRST, BOTPOOL_TOKEN="t0ken")
    (witness,) = process_harness.runs(FIRST)
    ours = {"PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "LC_ALL", "LC_CTYPE"}
    wanted = order(process_harness, container_id, FIRST, BOTPOOL_TOKEN="t0ken").environment
    assert set(witness.environment) - ours == set(wanted)
    assert witness.environment["LC_ALL"] == "C.UTF-8"
    on_disk = process_harness.directory(container_id).rglob("*")
    assert not [path for path in on_disk if path.is_file() and b"t0ken" in path.read_bytes()]
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert not [command for command in commands if b"t0ken" in command]


async def test_the_first_start_and_later_ones_take_their_time(
    process_harness: ProcessHarness,
) -> None:
    slow_later = await process_harness.control_plane(first_start_s=0, start_s=60)
    container_id = await running(process_harness, slow_later, FIRST)
    await stop(slow_later, container_id, FIRST)
    await slow_later.start(order(process_harness, container_id, SECOND), timeout_s=TIMEOUT_S)
    observation = await look(slow_later, container_id)
    assert (observation.state, observation.assignment_id) == (ContainerState.STARTING, SECOND)
    await stop(slow_later, container_id, SECOND)
    assert (await look(slow_later, container_id)).state is ContainerState.STOPPED
    assert not process_harness.runs(SECOND)


async def test_a_start_that_was_stopped_early_was_no_first_start(
    process_harness: ProcessHarness,
) -> None:
    backend = await process_harness.control_plane(first_start_s=60, start_s=0)
    container_id = await ensure(backend)
    for number in (FIRST, SECOND):
        await backend.start(order(process_harness, container_id, number), timeout_s=TIMEOUT_S)
        assert (await look(backend, container_id)).state is ContainerState.STARTING
        await stop(backend, container_id, number)


async def test_the_state_of_a_stopped_run_is_stopped_and_of_an_ended_one_exited(
    process_harness: ProcessHarness,
) -> None:
    backend = await process_harness.control_plane()
    container_id = await ensure(backend)
    assert (await look(backend, container_id)).state is ContainerState.STOPPED
    await running(process_harness, backend, FIRST, "exit 3")
    observation = await seen(backend, container_id, ContainerState.EXITED)
    assert (observation.assignment_id, observation.detail) == (FIRST, "exited with code 3")
    await stop(backend, container_id, FIRST)
    assert (await look(backend, container_id)).state is ContainerState.STOPPED


async def test_a_command_that_does_not_exist_is_told(process_harness: ProcessHarness) -> None:
    backend = await process_harness.control_plane(command=["no-such-bot"])
    with pytest.raises(BackendRefused, match=r"backends\.process\.command: 'no-such-bot'"):
        await backend.check(timeout_s=TIMEOUT_S)
    container_id = await ensure(backend)
    await backend.start(order(process_harness, container_id, FIRST), timeout_s=TIMEOUT_S)
    observation = await seen(backend, container_id, ContainerState.EXITED)
    assert observation.exit_code == 127
    assert observation.detail == "cannot run no-such-bot: No such file or directory"


async def test_output_never_exceeds_its_bound_and_the_newest_is_kept(
    process_harness: ProcessHarness,
) -> None:
    backend = await process_harness.control_plane(output_bytes=1_000)
    container_id = await running(process_harness, backend, FIRST, "print 5000")
    await stop(backend, container_id, FIRST)
    directory = process_harness.directory(container_id)
    sizes = [path.stat().st_size for path in directory.glob("output.*")]
    assert 500 < sum(sizes) <= 1_000
    assert (await output(backend, container_id, FIRST)).endswith(b"line 4999\nline 5000\n")
    assert await output(backend, container_id, FIRST, tail=1) == b"line 5000\n"


async def test_a_follower_is_led_over_rotations(process_harness: ProcessHarness) -> None:
    backend = await process_harness.control_plane(output_bytes=20_000)
    container_id = await ensure(backend)
    await backend.start(
        order(process_harness, container_id, FIRST, "print 3000"), timeout_s=TIMEOUT_S
    )
    following = asyncio.create_task(output(backend, container_id, FIRST, follow=True))
    await eventually(lambda: process_harness.runs(FIRST))
    await stop(backend, container_id, FIRST)
    async with asyncio.timeout(TIMEOUT_S):
        assert (await following).endswith(b"line 2999\nline 3000\n")


async def test_outputs_of_the_last_few_assignments_are_kept(
    process_harness: ProcessHarness,
) -> None:
    backend = await process_harness.control_plane()
    for number in range(1, launcher.KEPT_OUTPUTS + 3):
        container_id = await running(process_harness, backend, number, "print 1")
        await stop(backend, container_id, number)
    kept = process_harness.directory(container_id).glob("output.*")
    assert sorted(path.name for path in kept) == [f"output.{number}.log" for number in range(3, 8)]
    assert await output(backend, container_id, 2, follow=True) == b""


async def test_a_launcher_that_cannot_write_is_an_outage(process_harness: ProcessHarness) -> None:
    backend = await process_harness.control_plane()
    container_id = await ensure(backend)
    obstacle = process_harness.directory(container_id) / "run.json"
    obstacle.mkdir()
    with pytest.raises(BackendUnavailable, match="Is a directory"):
        await backend.start(order(process_harness, container_id, FIRST), timeout_s=TIMEOUT_S)
    obstacle.rmdir()
    assert not process_harness.runs(FIRST)


async def test_a_launcher_that_a_stop_silenced_was_superseded(
    process_harness: ProcessHarness,
) -> None:
    backend = await process_harness.control_plane()
    directory = Directory(str(process_harness.root), await ensure(backend))
    with pytest.raises(BackendUnavailable, match="broke"):
        judge("", directory, FIRST)
    directory.raise_fence(FIRST)
    with pytest.raises(StartSuperseded):
        judge("", directory, FIRST)


async def test_a_full_disk_is_an_outage(
    process_harness: ProcessHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(path: str, text: str) -> None:
        raise OSError(28, "No space left on device", path)

    backend = await process_harness.control_plane()
    monkeypatch.setattr("botpool.backends.process.directory._write_atomically", write)
    with pytest.raises(BackendUnavailable, match="No space left"):
        await ensure(backend)


async def test_a_changed_image_is_taken_by_the_same_container(
    process_harness: ProcessHarness,
) -> None:
    backend = await process_harness.control_plane()
    container_id = await ensure(backend)
    assert await ensure(backend, replace(SPEC, image="bot:2")) == container_id
    assert "bot:2" in (process_harness.directory(container_id) / "container.json").read_text()


def test_it_runs_on_the_event_loop_of_production(tmp_path: Path) -> None:
    async def scenario() -> None:
        harness = ProcessHarness(tmp_path)
        backend = await harness.control_plane()
        container_id = await running(harness, backend, 1, "stubborn")
        await stop(backend, container_id, 1)
        assert (await look(backend, container_id)).state is ContainerState.STOPPED
        await running(harness, backend, 2, "exit 0")
        await seen_down(backend, container_id)
        assert len(harness.runs(AssignmentId(2))) == 1
        await harness.clear()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())
