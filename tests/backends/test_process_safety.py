"""Who is signalled, what is believed, and what is cleaned up by the process backend."""

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
from botpool.backends.process.directory import NEVER_AGAIN, Directory
from botpool.domain.errors import BackendUnavailable, ContainerGone, StartSuperseded
from botpool.domain.ids import ContainerId
from botpool.domain.observation import ContainerState
from tests.backends.conformance import FIRST, SECOND, ensure, stop
from tests.backends.harness import TIMEOUT_S, eventually, look, order, running, seen, seen_down
from tests.backends.process_harness import ProcessHarness


@contextmanager
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that has nothing to do with any container."""
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


async def test_a_process_id_that_was_used_again_is_not_ours(
    process_harness: ProcessHarness,
) -> None:
    backend = await process_harness.control_plane()
    container_id = await ensure(backend)
    with bystander() as stranger:
        write_run(process_harness, container_id, stranger.pid)
        assert (await look(backend, container_id)).state is ContainerState.EXITED
        await stop(backend, container_id, None)
        await stop(backend, container_id, FIRST)
        assert stranger.poll() is None


async def test_nobody_is_hit_on_a_guess(process_harness: ProcessHarness) -> None:
    """Somebody has the lock, but the record's process id is a stranger's by now."""
    backend = await process_harness.control_plane()
    container_id = await ensure(backend)
    with (
        (process_harness.directory(container_id) / "run.lock").open("r+") as lock,
        bystander() as (stranger),
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        write_run(process_harness, container_id, stranger.pid)
        await backend.stop(container_id, FIRST, timeout_s=1)
        assert (await look(backend, container_id)).state is ContainerState.RUNNING
        with pytest.raises(BackendUnavailable, match="does not end"):
            await backend.delete(container_id, timeout_s=1)
        assert stranger.poll() is None
    assert (await look(backend, container_id)).state is ContainerState.STOPPED


@pytest.mark.parametrize("pid", [-1, 0, 1])
def test_a_record_never_names_everybody(tmp_path: Path, pid: int) -> None:
    directory = Directory(str(tmp_path), ContainerId("pool-teams-001.abcdef"))
    Path(directory.path).mkdir()
    run = {"assignment": 1, "pid": 4_000_000, "program": pid, "state": "running"}
    for record in (run, run | {"pid": pid, "program": None}):
        (Path(directory.path) / "run.json").write_text(json.dumps(record))
        assert directory.run() is None


@pytest.mark.parametrize("state", ["starting", "running", "ended"])
async def test_a_record_is_never_missing(process_harness: ProcessHarness, state: str) -> None:
    """Its writer may be killed when the old one is gone and the next has no name yet."""
    backend = await process_harness.control_plane()
    directory = Directory(str(process_harness.root), await ensure(backend))
    record = launcher.Record(directory.path, FIRST)
    record.write(state)
    Path(directory.path, "run.json").rename(Path(directory.path, "run.next.json"))
    found = directory.run()
    assert found is not None
    assert (found.assignment_id, found.state) == (FIRST, state)
    assert (await look(backend, directory.container_id)).assignment_id == FIRST
    with pytest.raises(launcher.Refused, match="already"):
        launcher.claim(directory.path, FIRST)


async def test_half_a_record_takes_no_other_along(
    process_harness: ProcessHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = await process_harness.control_plane()
    directory = Directory(str(process_harness.root), await ensure(backend))
    launcher.Record(directory.path, FIRST).write("ended")
    Path(directory.path, "run.json").rename(Path(directory.path, "run.next.json"))

    def killed(fields: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(json, "dumps", killed)
    with pytest.raises(KeyboardInterrupt):
        launcher.Record(directory.path, SECOND).write("starting")
    found = directory.run()
    assert found is not None
    assert found.assignment_id == FIRST


async def test_a_record_is_there_at_every_moment(process_harness: ProcessHarness) -> None:
    backend = await process_harness.control_plane()
    directory = Directory(str(process_harness.root), await ensure(backend))
    record = launcher.Record(directory.path, FIRST)
    record.write("running")

    def write() -> None:
        for _ in range(2_000):
            record.write("running")

    writing = asyncio.create_task(asyncio.to_thread(write))
    while not writing.done():
        await asyncio.sleep(0)
        found = directory.run()
        assert found is not None
    await writing


async def test_a_late_stop_does_not_hit_the_next_tenant(process_harness: ProcessHarness) -> None:
    backend = await process_harness.control_plane()
    container_id = await running(process_harness, backend, SECOND)
    await stop(backend, container_id, FIRST)
    observation = await look(backend, container_id)
    assert (observation.state, observation.assignment_id) == (ContainerState.RUNNING, SECOND)


async def test_the_run_is_seen_and_stopped_when_its_launcher_was_killed(
    process_harness: ProcessHarness,
) -> None:
    backend = await process_harness.control_plane()
    container_id = await running(process_harness, backend, FIRST, "stubborn")
    run = Directory(str(process_harness.root), container_id).run()
    assert run is not None
    os.kill(run.pid, signal.SIGKILL)
    await eventually(lambda: not is_alive(run.pid))
    assert (await look(backend, container_id)).state is ContainerState.RUNNING
    await stop(backend, container_id, FIRST)
    assert (await look(backend, container_id)).state is ContainerState.STOPPED
    assert run.program_pid is not None
    assert not is_alive(run.program_pid)


async def test_nothing_outlives_the_program(process_harness: ProcessHarness) -> None:
    """A daemon that the program leaves keeps neither the pipe nor the lock."""
    backend = await process_harness.control_plane()
    container_id = await running(process_harness, backend, FIRST, "daemon")
    observation = await seen(backend, container_id, ContainerState.EXITED)
    assert observation.detail == "exited with code 0"
    (daemon,) = process_harness.runs(f"{FIRST}-daemon")
    assert daemon.pid is not None
    assert not is_alive(daemon.pid)


async def test_a_killed_program_takes_its_daemons_along(process_harness: ProcessHarness) -> None:
    """Its launcher is spared for that, and so can tell how the run ended."""
    backend = await process_harness.control_plane()
    container_id = await running(process_harness, backend, FIRST, "stubborn daemon")
    await eventually(lambda: process_harness.runs(f"{FIRST}-daemon"))
    (daemon,) = process_harness.runs(f"{FIRST}-daemon")
    await stop(backend, container_id, FIRST)
    observation = await look(backend, container_id)
    assert (observation.exit_code, observation.detail) == (137, "killed by SIGKILL")
    assert daemon.pid is not None
    assert not is_alive(daemon.pid)


async def test_a_program_is_asked_before_it_is_killed(process_harness: ProcessHarness) -> None:
    backend = await process_harness.control_plane(stop_grace_s=TIMEOUT_S)
    container_id = await running(process_harness, backend, FIRST)
    await stop(backend, container_id, None)
    observation = await look(backend, container_id)
    assert observation.state is ContainerState.STOPPED
    assert (observation.exit_code, observation.detail) == (143, "killed by SIGTERM")


async def test_no_zombies_are_left(process_harness: ProcessHarness) -> None:
    backend = await process_harness.control_plane()
    container_id = await running(process_harness, backend, FIRST, "exit 0")
    await seen_down(backend, container_id)
    run = Directory(str(process_harness.root), container_id).run()
    assert run is not None
    await eventually(lambda: not Path(f"/proc/{run.pid}").exists())


@pytest.mark.parametrize("inherited", [False, True])
async def test_an_end_is_hinted_at_once(process_harness: ProcessHarness, inherited: bool) -> None:
    backend = await process_harness.control_plane()
    container_id = await running(process_harness, backend, FIRST)
    watcher = await process_harness.control_plane() if inherited else backend
    (witness,) = process_harness.runs(FIRST)
    assert witness.pid is not None
    os.kill(witness.pid, signal.SIGKILL)
    async with asyncio.timeout(TIMEOUT_S):
        assert await anext(aiter(watcher.changes())) == container_id
    observation = await look(watcher, container_id)
    assert (observation.exit_code, observation.detail) == (137, "killed by SIGKILL")


async def test_hints_end_with_the_backend(process_harness: ProcessHarness) -> None:
    backend = await process_harness.control_plane()
    await backend.close()
    assert [hint async for hint in backend.changes()] == []


async def test_a_name_cannot_lead_out_of_the_root(process_harness: ProcessHarness) -> None:
    backend = await process_harness.control_plane()
    container_id = await ensure(backend)
    outside = process_harness.root.parent / container_id
    process_harness.directory(container_id).rename(outside)
    for wanted in (f"../{container_id}", str(outside), f"./../{container_id}"):
        await backend.delete(ContainerId(wanted), timeout_s=TIMEOUT_S)
        with pytest.raises(ContainerGone):
            await backend.describe(ContainerId(wanted), "mine?", timeout_s=TIMEOUT_S)
    assert (outside / "container.json").exists()


async def test_leftovers_of_a_crash_are_cleared_and_strangers_kept(
    process_harness: ProcessHarness,
) -> None:
    await process_harness.control_plane()
    root = process_harness.root
    leftovers = [root / ".making.pool-teams-001.abcdef", root / ".deleting.pool-teams-001.abcdef"]
    strangers = [root / "pool-teams-001.aaaaaa", root / "notes"]
    for folder in leftovers + strangers:
        folder.mkdir()
    (strangers[0] / "container.json").write_text('{"name": "pool-tea')
    backend = await process_harness.control_plane()
    assert not await backend.list_owned(timeout_s=TIMEOUT_S)
    assert await ensure(backend) != strangers[0].name
    assert [each.exists() for each in leftovers + strangers] == [False, False, True, True]


async def test_a_container_whose_deletion_began_is_not_handed_out(
    process_harness: ProcessHarness,
) -> None:
    backend = await process_harness.control_plane()
    delete_requested = await ensure(backend)
    Directory(str(process_harness.root), delete_requested).raise_fence(NEVER_AGAIN)
    assert await ensure(backend) != delete_requested
    with pytest.raises(StartSuperseded):
        await backend.start(order(process_harness, delete_requested, FIRST), timeout_s=TIMEOUT_S)
    listed = await backend.list_owned(timeout_s=TIMEOUT_S)
    assert delete_requested in [found.container_id for found in listed]


async def test_the_fence_never_falls(process_harness: ProcessHarness) -> None:
    backend = await process_harness.control_plane()
    container_id = await ensure(backend)
    await stop(backend, container_id, SECOND)
    await stop(backend, container_id, FIRST)
    with pytest.raises(StartSuperseded):
        await backend.start(order(process_harness, container_id, SECOND), timeout_s=TIMEOUT_S)
    assert not process_harness.runs(SECOND)


async def test_a_look_does_not_disturb_a_start(process_harness: ProcessHarness) -> None:
    """A look tests the very lock that a launcher wants to take; this one takes its time."""
    backend = await process_harness.control_plane()
    container_id = await ensure(backend)
    with (process_harness.directory(container_id) / "run.lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        starting = asyncio.create_task(
            backend.start(order(process_harness, container_id, FIRST), timeout_s=TIMEOUT_S)
        )
        await asyncio.sleep(0.2)
    await starting
    assert (await look(backend, container_id)).assignment_id == FIRST
