"""Safety of the process backend: signals, records, locks and cleanup."""

import asyncio
import fcntl
import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from botpool.backends.process import launcher
from botpool.backends.process.container_directory import DELETED_FENCE, ContainerDirectory
from botpool.domain.errors import BackendUnavailable, ContainerGone, StartSuperseded
from botpool.domain.ids import ContainerId
from botpool.domain.observation import ContainerState
from tests.backends.conformance import FIRST, SECOND, ensure, stop
from tests.backends.harness import (
    TIMEOUT_S,
    eventually,
    observe,
    start_and_wait,
    start_request,
    wait_for_state,
    wait_until_down,
)
from tests.backends.process_harness import ProcessHarness
from tests.support.fences import ANY_ASSIGNMENT


@contextmanager
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that belongs to no container."""
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
        yield process
        process.kill()


def write_run(harness: ProcessHarness, container_id: ContainerId, pid: int) -> None:
    run = {"assignment": FIRST, "pid": pid, "program": pid, "state": "running"}
    (harness.directory(container_id) / "run.json").write_text(json.dumps(run))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_reused_pid_is_not_signalled(
    process_harness: ProcessHarness,
) -> None:
    backend = await process_harness.open_backend()
    container_id = await ensure(backend)
    with bystander() as foreign_process:
        write_run(process_harness, container_id, foreign_process.pid)
        assert (await observe(backend, container_id)).state is ContainerState.EXITED
        await stop(backend, container_id, FIRST)
        assert foreign_process.poll() is None


async def test_pid_without_the_lock_is_not_signalled(process_harness: ProcessHarness) -> None:
    """Another process holds the lock, and the recorded pid was reused."""
    backend = await process_harness.open_backend()
    container_id = await ensure(backend)
    with (
        (process_harness.directory(container_id) / "run.lock").open("r+") as lock,
        bystander() as foreign_process,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        write_run(process_harness, container_id, foreign_process.pid)
        await backend.stop(container_id, FIRST, timeout_s=1)
        assert (await observe(backend, container_id)).state is ContainerState.RUNNING
        with pytest.raises(BackendUnavailable, match="has not ended"):
            await backend.delete(container_id, stop_through=ANY_ASSIGNMENT, timeout_s=1)
        assert foreign_process.poll() is None
    assert (await observe(backend, container_id)).state is ContainerState.STOPPED


@pytest.mark.parametrize("pid", [-1, 0, 1])
def test_record_with_special_pid_is_ignored(tmp_path: Path, pid: int) -> None:
    directory = ContainerDirectory(str(tmp_path), ContainerId("pool-teams-001.abcdef"))
    Path(directory.path).mkdir()
    run = {"assignment": 1, "pid": 4_000_000, "program": pid, "state": "running"}
    for record in (run, run | {"pid": pid, "program": None}):
        (Path(directory.path) / "run.json").write_text(json.dumps(record))
        assert directory.last_run() is None


@pytest.mark.parametrize("state", ["starting", "running", "ended"])
async def test_record_is_found_between_two_writes(
    process_harness: ProcessHarness, state: str
) -> None:
    """The writer may be killed between removing the old record and renaming the new one."""
    backend = await process_harness.open_backend()
    directory = ContainerDirectory(str(process_harness.root), await ensure(backend))
    record = launcher.RecordFile(directory.path, FIRST)
    record.write(state)
    Path(directory.path, "run.json").rename(Path(directory.path, "run.next.json"))
    found = directory.last_run()
    assert found is not None
    assert (found.assignment_id, found.state) == (FIRST, state)
    assert (await observe(backend, directory.container_id)).assignment_id == FIRST
    with pytest.raises(launcher.LaunchRefused, match="already"):
        launcher.claim(directory.path, FIRST)


async def test_interrupted_write_keeps_old_record(
    process_harness: ProcessHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = await process_harness.open_backend()
    directory = ContainerDirectory(str(process_harness.root), await ensure(backend))
    launcher.RecordFile(directory.path, FIRST).write("ended")
    Path(directory.path, "run.json").rename(Path(directory.path, "run.next.json"))

    def killed(fields: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(json, "dumps", killed)
    with pytest.raises(KeyboardInterrupt):
        launcher.RecordFile(directory.path, SECOND).write("starting")
    found = directory.last_run()
    assert found is not None
    assert found.assignment_id == FIRST


async def test_record_exists_during_concurrent_writes(process_harness: ProcessHarness) -> None:
    backend = await process_harness.open_backend()
    directory = ContainerDirectory(str(process_harness.root), await ensure(backend))
    record = launcher.RecordFile(directory.path, FIRST)
    record.write("running")

    def write() -> None:
        for _ in range(2_000):
            record.write("running")

    writing = asyncio.create_task(asyncio.to_thread(write))
    while not writing.done():
        await asyncio.sleep(0)
        found = directory.last_run()
        assert found is not None
    await writing


async def test_late_stop_does_not_touch_next_bot(process_harness: ProcessHarness) -> None:
    backend = await process_harness.open_backend()
    container_id = await start_and_wait(process_harness, backend, SECOND)
    await stop(backend, container_id, FIRST)
    observation = await observe(backend, container_id)
    assert (observation.state, observation.assignment_id) == (ContainerState.RUNNING, SECOND)


async def test_run_is_observed_and_stopped_after_its_launcher_was_killed(
    process_harness: ProcessHarness,
) -> None:
    backend = await process_harness.open_backend()
    container_id = await start_and_wait(process_harness, backend, FIRST, "stubborn")
    run = ContainerDirectory(str(process_harness.root), container_id).last_run()
    assert run is not None
    os.kill(run.pid, signal.SIGKILL)
    await eventually(lambda: not is_alive(run.pid))
    assert (await observe(backend, container_id)).state is ContainerState.RUNNING
    await stop(backend, container_id, FIRST)
    assert (await observe(backend, container_id)).state is ContainerState.STOPPED
    assert run.program_pid is not None
    assert not is_alive(run.program_pid)


async def test_daemon_of_the_program_ends_with_it(process_harness: ProcessHarness) -> None:
    """The daemon keeps neither the pipe nor the lock."""
    backend = await process_harness.open_backend()
    container_id = await start_and_wait(process_harness, backend, FIRST, "daemon")
    observation = await wait_for_state(backend, container_id, ContainerState.EXITED)
    assert observation.detail == "exited with code 0"
    (daemon,) = process_harness.runs(f"{FIRST}-daemon")
    assert daemon.pid is not None
    assert not is_alive(daemon.pid)


async def test_killing_the_program_ends_its_daemons(process_harness: ProcessHarness) -> None:
    """The launcher survives and records how the run ended."""
    backend = await process_harness.open_backend()
    container_id = await start_and_wait(process_harness, backend, FIRST, "stubborn daemon")
    await eventually(lambda: process_harness.runs(f"{FIRST}-daemon"))
    (daemon,) = process_harness.runs(f"{FIRST}-daemon")
    await stop(backend, container_id, FIRST)
    observation = await observe(backend, container_id)
    assert (observation.exit_code, observation.detail) == (137, "killed by SIGKILL")
    assert daemon.pid is not None
    assert not is_alive(daemon.pid)


async def test_program_gets_sigterm_before_sigkill(process_harness: ProcessHarness) -> None:
    backend = await process_harness.open_backend(stop_grace_s=TIMEOUT_S)
    container_id = await start_and_wait(process_harness, backend, FIRST)
    await stop(backend, container_id, FIRST)
    observation = await observe(backend, container_id)
    assert observation.state is ContainerState.STOPPED
    assert (observation.exit_code, observation.detail) == (143, "killed by SIGTERM")


async def test_launcher_leaves_no_zombie(process_harness: ProcessHarness) -> None:
    backend = await process_harness.open_backend()
    container_id = await start_and_wait(process_harness, backend, FIRST, "exit 0")
    await wait_until_down(backend, container_id)
    run = ContainerDirectory(str(process_harness.root), container_id).last_run()
    assert run is not None
    await eventually(lambda: not Path(f"/proc/{run.pid}").exists())


@pytest.mark.parametrize("inherited", [False, True])
async def test_exit_yields_hint(process_harness: ProcessHarness, inherited: bool) -> None:
    backend = await process_harness.open_backend()
    container_id = await start_and_wait(process_harness, backend, FIRST)
    watcher = await process_harness.open_backend() if inherited else backend
    (run,) = process_harness.runs(FIRST)
    assert run.pid is not None
    os.kill(run.pid, signal.SIGKILL)
    async with asyncio.timeout(TIMEOUT_S):
        assert await anext(aiter(watcher.changes())) == container_id
    observation = await observe(watcher, container_id)
    assert (observation.exit_code, observation.detail) == (137, "killed by SIGKILL")


async def test_hints_end_when_backend_closes(process_harness: ProcessHarness) -> None:
    backend = await process_harness.open_backend()
    await backend.close()
    assert [hint async for hint in backend.changes()] == []


async def test_container_id_cannot_leave_the_root(process_harness: ProcessHarness) -> None:
    backend = await process_harness.open_backend()
    container_id = await ensure(backend)
    outside = process_harness.root.parent / container_id
    process_harness.directory(container_id).rename(outside)
    for container in (f"../{container_id}", str(outside), f"./../{container_id}"):
        await backend.delete(
            ContainerId(container), stop_through=ANY_ASSIGNMENT, timeout_s=TIMEOUT_S
        )
        with pytest.raises(ContainerGone):
            await backend.describe(ContainerId(container), "text", timeout_s=TIMEOUT_S)
    assert (outside / "container.json").exists()


async def test_open_removes_leftovers_and_keeps_foreign_folders(
    process_harness: ProcessHarness,
) -> None:
    await process_harness.open_backend()
    root = process_harness.root
    leftovers = [root / ".creating.pool-teams-001.abcdef", root / ".deleting.pool-teams-001.abcdef"]
    foreign_processs = [root / "pool-teams-001.aaaaaa", root / "notes"]
    for folder in leftovers + foreign_processs:
        folder.mkdir()
    (foreign_processs[0] / "container.json").write_text('{"name": "pool-tea')
    backend = await process_harness.open_backend()
    assert not await backend.list_owned(timeout_s=TIMEOUT_S)
    assert await ensure(backend) != foreign_processs[0].name
    assert [each.exists() for each in leftovers + foreign_processs] == [False, False, True, True]


async def test_container_being_deleted_is_not_reused(
    process_harness: ProcessHarness,
) -> None:
    backend = await process_harness.open_backend()
    deleted = await ensure(backend)
    ContainerDirectory(str(process_harness.root), deleted).raise_fence(DELETED_FENCE)
    assert await ensure(backend) != deleted
    with pytest.raises(StartSuperseded):
        await backend.start(start_request(process_harness, deleted, FIRST), timeout_s=TIMEOUT_S)
    listed = await backend.list_owned(timeout_s=TIMEOUT_S)
    assert deleted in [found.container_id for found in listed]


async def test_fence_is_never_lowered(process_harness: ProcessHarness) -> None:
    backend = await process_harness.open_backend()
    container_id = await ensure(backend)
    await stop(backend, container_id, SECOND)
    await stop(backend, container_id, FIRST)
    with pytest.raises(StartSuperseded):
        await backend.start(
            start_request(process_harness, container_id, SECOND), timeout_s=TIMEOUT_S
        )
    assert not process_harness.runs(SECOND)


async def test_observation_does_not_prevent_start(process_harness: ProcessHarness) -> None:
    """An observation holds the lock that the launcher needs; this one holds it for long."""
    backend = await process_harness.open_backend()
    container_id = await ensure(backend)
    with (process_harness.directory(container_id) / "run.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        starting = asyncio.create_task(
            backend.start(start_request(process_harness, container_id, FIRST), timeout_s=TIMEOUT_S)
        )
        await asyncio.sleep(0.2)
    await starting
    assert (await observe(backend, container_id)).assignment_id == FIRST
