"""Starts of the process backend: environment, delays, output and errors."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
import uvloop

from botpool.backends.process import launcher
from botpool.backends.process.container_directory import ContainerDirectory
from botpool.backends.process.launch import check_answer
from botpool.domain.errors import BackendRefused, BackendUnavailable, StartSuperseded
from botpool.domain.ids import AssignmentId
from botpool.domain.observation import ContainerState
from tests.backends.conformance import FIRST, SECOND, ensure, stop
from tests.backends.harness import (
    SPEC,
    TIMEOUT_S,
    eventually,
    observe,
    output,
    start_and_wait,
    start_request,
    wait_for_state,
    wait_until_down,
)
from tests.backends.process_harness import ProcessHarness


async def test_program_gets_its_environment_and_no_secrets(
    process_harness: ProcessHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://bot:password@db")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    backend = await process_harness.open_backend()
    container_id = await start_and_wait(process_harness, backend, FIRST, BOTPOOL_TOKEN="t0ken")
    (run,) = process_harness.runs(FIRST)
    ours = {"PATH", "HOME", "USER", "LANG", "TZ", "TMPDIR", "LC_ALL", "LC_CTYPE"}
    request = start_request(process_harness, container_id, FIRST, BOTPOOL_TOKEN="t0ken").environment
    assert set(run.environment) - ours == set(request)
    assert run.environment["LC_ALL"] == "C.UTF-8"
    on_disk = process_harness.directory(container_id).rglob("*")
    assert not [path for path in on_disk if path.is_file() and b"t0ken" in path.read_bytes()]
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert not [command for command in commands if b"t0ken" in command]


async def test_later_start_takes_start_s(
    process_harness: ProcessHarness,
) -> None:
    slow_later = await process_harness.open_backend(first_start_s=0, start_s=60)
    container_id = await start_and_wait(process_harness, slow_later, FIRST)
    await stop(slow_later, container_id, FIRST)
    await slow_later.start(
        start_request(process_harness, container_id, SECOND), timeout_s=TIMEOUT_S
    )
    observation = await observe(slow_later, container_id)
    assert (observation.state, observation.assignment_id) == (ContainerState.STARTING, SECOND)
    await stop(slow_later, container_id, SECOND)
    assert (await observe(slow_later, container_id)).state is ContainerState.STOPPED
    assert not process_harness.runs(SECOND)


async def test_start_stopped_before_the_program_ran_is_not_the_first_start(
    process_harness: ProcessHarness,
) -> None:
    backend = await process_harness.open_backend(first_start_s=60, start_s=0)
    container_id = await ensure(backend)
    for number in (FIRST, SECOND):
        await backend.start(
            start_request(process_harness, container_id, number), timeout_s=TIMEOUT_S
        )
        assert (await observe(backend, container_id)).state is ContainerState.STARTING
        await stop(backend, container_id, number)


async def test_stopped_run_is_stopped_and_ended_run_is_exited(
    process_harness: ProcessHarness,
) -> None:
    backend = await process_harness.open_backend()
    container_id = await ensure(backend)
    assert (await observe(backend, container_id)).state is ContainerState.STOPPED
    await start_and_wait(process_harness, backend, FIRST, "exit 3")
    observation = await wait_for_state(backend, container_id, ContainerState.EXITED)
    assert (observation.assignment_id, observation.detail) == (FIRST, "exited with code 3")
    await stop(backend, container_id, FIRST)
    assert (await observe(backend, container_id)).state is ContainerState.STOPPED


async def test_missing_command_is_reported(process_harness: ProcessHarness) -> None:
    backend = await process_harness.open_backend(command=["no-such-bot"])
    with pytest.raises(BackendRefused, match=r"backends\.process\.command: 'no-such-bot'"):
        await backend.check(timeout_s=TIMEOUT_S)
    container_id = await ensure(backend)
    await backend.start(start_request(process_harness, container_id, FIRST), timeout_s=TIMEOUT_S)
    observation = await wait_for_state(backend, container_id, ContainerState.EXITED)
    assert observation.exit_code == 127
    assert observation.detail == "cannot run no-such-bot: No such file or directory"


async def test_newest_output_is_kept_within_the_limit(
    process_harness: ProcessHarness,
) -> None:
    backend = await process_harness.open_backend(output_bytes=1_000)
    container_id = await start_and_wait(process_harness, backend, FIRST, "print 5000")
    await stop(backend, container_id, FIRST)
    directory = process_harness.directory(container_id)
    sizes = [path.stat().st_size for path in directory.glob("output.*")]
    assert 500 < sum(sizes) <= 1_000
    assert (await output(backend, container_id, FIRST)).endswith(b"line 4999\nline 5000\n")
    assert await output(backend, container_id, FIRST, tail=1) == b"line 5000\n"


async def test_followed_log_survives_rotation(process_harness: ProcessHarness) -> None:
    backend = await process_harness.open_backend(output_bytes=20_000)
    container_id = await ensure(backend)
    await backend.start(
        start_request(process_harness, container_id, FIRST, "print 3000"), timeout_s=TIMEOUT_S
    )
    following = asyncio.create_task(output(backend, container_id, FIRST, follow=True))
    await eventually(lambda: process_harness.runs(FIRST))
    await stop(backend, container_id, FIRST)
    async with asyncio.timeout(TIMEOUT_S):
        assert (await following).endswith(b"line 2999\nline 3000\n")


async def test_outputs_of_last_assignments_are_kept(
    process_harness: ProcessHarness,
) -> None:
    backend = await process_harness.open_backend()
    for number in range(1, launcher.KEPT_OUTPUTS + 3):
        container_id = await start_and_wait(process_harness, backend, number, "print 1")
        await stop(backend, container_id, number)
    kept = process_harness.directory(container_id).glob("output.*")
    assert sorted(path.name for path in kept) == [f"output.{number}.log" for number in range(3, 8)]
    assert await output(backend, container_id, 2, follow=True) == b""


async def test_launcher_that_cannot_write_is_unavailable(process_harness: ProcessHarness) -> None:
    backend = await process_harness.open_backend()
    container_id = await ensure(backend)
    obstacle = process_harness.directory(container_id) / "run.json"
    obstacle.mkdir()
    with pytest.raises(BackendUnavailable, match="Is a directory"):
        await backend.start(
            start_request(process_harness, container_id, FIRST), timeout_s=TIMEOUT_S
        )
    obstacle.rmdir()
    assert not process_harness.runs(FIRST)


async def test_launcher_killed_by_a_stop_is_superseded(
    process_harness: ProcessHarness,
) -> None:
    backend = await process_harness.open_backend()
    directory = ContainerDirectory(str(process_harness.root), await ensure(backend))
    with pytest.raises(BackendUnavailable, match="launcher failed"):
        check_answer("", directory, FIRST)
    directory.raise_fence(FIRST)
    with pytest.raises(StartSuperseded):
        check_answer("", directory, FIRST)


async def test_full_disk_is_unavailable(
    process_harness: ProcessHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(path: str, text: str) -> None:
        raise OSError(28, "No space left on device", path)

    backend = await process_harness.open_backend()
    monkeypatch.setattr("botpool.backends.process.container_directory._write_atomically", write)
    with pytest.raises(BackendUnavailable, match="No space left"):
        await ensure(backend)


async def test_changed_image_keeps_the_container(
    process_harness: ProcessHarness,
) -> None:
    backend = await process_harness.open_backend()
    container_id = await ensure(backend)
    assert await ensure(backend, replace(SPEC, image="bot:2")) == container_id
    assert "bot:2" in (process_harness.directory(container_id) / "container.json").read_text()


def test_backend_works_with_uvloop(tmp_path: Path) -> None:
    async def scenario() -> None:
        harness = ProcessHarness(tmp_path)
        backend = await harness.open_backend()
        container_id = await start_and_wait(harness, backend, 1, "stubborn")
        await stop(backend, container_id, 1)
        assert (await observe(backend, container_id)).state is ContainerState.STOPPED
        await start_and_wait(harness, backend, 2, "exit 0")
        await wait_until_down(backend, container_id)
        assert len(harness.runs(AssignmentId(2))) == 1
        await harness.clear()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(scenario())
