"""The fork server of the process backend: its start, its end and its launchers."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from botpool.backends.process.container_directory import ContainerDirectory
from botpool.backends.process.fork_server import ForkServer
from botpool.domain.errors import BackendUnavailable
from botpool.domain.observation import ContainerState
from tests.backends.conformance import FIRST, SECOND, ensure, stop
from tests.backends.harness import (
    SPEC,
    TIMEOUT_S,
    eventually,
    observe,
    start_and_wait,
    start_request,
    wait_for_state,
    wait_until_down,
)
from tests.backends.process_harness import ProcessHarness


def fork_servers() -> list[psutil.Process]:
    """Return the fork servers of this test; programs and launchers are not its children."""
    return [
        child
        for child in psutil.Process().children()
        if any(word.endswith("launcher.py") for word in child.cmdline())
    ]


async def test_one_fork_server_starts_all_launchers(process_harness: ProcessHarness) -> None:
    backend = await process_harness.open_backend()
    assert not fork_servers(), "created when it is needed"
    container_id = await start_and_wait(process_harness, backend, FIRST)
    (fork_server,) = fork_servers()
    await stop(backend, container_id, FIRST)
    await start_and_wait(process_harness, backend, SECOND)
    assert fork_servers() == [fork_server]


async def test_runs_outlive_a_killed_fork_server_and_the_next_start_opens_another(
    process_harness: ProcessHarness,
) -> None:
    backend = await process_harness.open_backend()
    container_id = await start_and_wait(process_harness, backend, FIRST)
    (killed,) = fork_servers()
    killed.kill()
    await eventually(lambda: not killed.is_running() or killed.status() == psutil.STATUS_ZOMBIE)
    assert (await observe(backend, container_id)).state is ContainerState.RUNNING
    await stop(backend, container_id, FIRST)
    assert (await observe(backend, container_id)).exit_code == 143
    await start_and_wait(process_harness, backend, SECOND)
    (fork_server,) = fork_servers()
    assert fork_server != killed


async def test_start_is_repeatable_after_the_fork_server_was_killed(
    process_harness: ProcessHarness,
) -> None:
    backend = await process_harness.open_backend()
    container_id = await start_and_wait(process_harness, backend, FIRST)
    await stop(backend, container_id, FIRST)
    (fork_server,) = fork_servers()
    fork_server.suspend()
    request = start_request(process_harness, container_id, SECOND)
    starting = asyncio.create_task(backend.start(request, timeout_s=TIMEOUT_S))
    await asyncio.sleep(0.05)
    fork_server.kill()
    with pytest.raises(BackendUnavailable):
        await starting
    await backend.start(request, timeout_s=TIMEOUT_S)
    await wait_for_state(backend, container_id, ContainerState.RUNNING)


async def test_fork_server_ends_with_its_control_plane_and_runs_continue(
    process_harness: ProcessHarness,
) -> None:
    backend = await process_harness.open_backend()
    container_id = await start_and_wait(process_harness, backend, FIRST)
    (fork_server,) = fork_servers()
    await backend.close()
    assert not fork_server.is_running()
    successor = await process_harness.open_backend()
    assert (await observe(successor, container_id)).state is ContainerState.RUNNING


async def test_launcher_inherits_no_socket_and_no_session(process_harness: ProcessHarness) -> None:
    """The working directory of a launcher is the directory of its container."""
    backend = await process_harness.open_backend()
    container_id = await start_and_wait(process_harness, backend, FIRST)
    run = ContainerDirectory(str(process_harness.root), container_id).last_run()
    assert run is not None
    opened = [str(each.readlink()) for each in Path(f"/proc/{run.pid}/fd").iterdir()]
    assert not [name for name in opened if name.startswith("socket:")]
    assert os.getsid(run.pid) == run.pid
    assert psutil.Process(run.pid).cwd() == str(process_harness.directory(container_id))


async def test_concurrent_starts_all_run(process_harness: ProcessHarness) -> None:
    backend = await process_harness.open_backend()
    names = [f"pool-teams-{number:03}" for number in range(1, 41)]
    created = [await ensure(backend, replace(SPEC, name=name)) for name in names]
    orders = [
        start_request(process_harness, each, number) for number, each in enumerate(created, start=1)
    ]
    await asyncio.gather(*(backend.start(each, timeout_s=TIMEOUT_S) for each in orders))
    for number, each in enumerate(created, start=1):
        assert (await observe(backend, each)).assignment_id == number
        await stop(backend, each, number)
        await wait_until_down(backend, each)


async def test_suspended_fork_server_does_not_block_the_event_loop(tmp_path: Path) -> None:
    """A frozen cgroup suspends the fork server; a start then fails at once."""
    fork_server = ForkServer({})
    order = tmp_path / "order"
    order.write_text("{}")
    with order.open("rb") as file:
        os.close(fork_server.fork(file.fileno()))
        (process,) = fork_servers()
        process.suspend()
        with pytest.raises(BlockingIOError):
            for _ in range(10_000):
                os.close(fork_server.fork(file.fileno()))
    process.resume()
    await asyncio.to_thread(fork_server.close)
    assert not fork_servers()
