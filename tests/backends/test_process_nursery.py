"""The interpreter that forks launchers: who outlives it, and whom it outlives."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from botpool.backends.process.container_directory import ContainerDirectory
from botpool.backends.process.nursery import Nursery
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


def nurseries() -> list[psutil.Process]:
    """Of this test's control planes: programs and launchers are no children of ours."""
    return [
        child
        for child in psutil.Process().children()
        if any(word.endswith("launcher.py") for word in child.cmdline())
    ]


async def test_launchers_come_from_one_interpreter(process_harness: ProcessHarness) -> None:
    backend = await process_harness.open_backend()
    assert not nurseries(), "created when it is needed"
    container_id = await start_and_wait(process_harness, backend, FIRST)
    (nursery,) = nurseries()
    await stop(backend, container_id, FIRST)
    await start_and_wait(process_harness, backend, SECOND)
    assert nurseries() == [nursery]


async def test_runs_outlive_it_and_the_next_start_makes_another(
    process_harness: ProcessHarness,
) -> None:
    backend = await process_harness.open_backend()
    container_id = await start_and_wait(process_harness, backend, FIRST)
    (killed,) = nurseries()
    killed.kill()
    await eventually(lambda: not killed.is_running() or killed.status() == psutil.STATUS_ZOMBIE)
    assert (await observe(backend, container_id)).state is ContainerState.RUNNING
    await stop(backend, container_id, FIRST)
    assert (await observe(backend, container_id)).exit_code == 143
    await start_and_wait(process_harness, backend, SECOND)
    (nursery,) = nurseries()
    assert nursery != killed


async def test_a_start_that_it_takes_to_its_grave_is_no_evidence(
    process_harness: ProcessHarness,
) -> None:
    backend = await process_harness.open_backend()
    container_id = await start_and_wait(process_harness, backend, FIRST)
    await stop(backend, container_id, FIRST)
    (nursery,) = nurseries()
    nursery.suspend()
    request = start_request(process_harness, container_id, SECOND)
    starting = asyncio.create_task(backend.start(request, timeout_s=TIMEOUT_S))
    await asyncio.sleep(0.05)
    nursery.kill()
    with pytest.raises(BackendUnavailable):
        await starting
    await backend.start(request, timeout_s=TIMEOUT_S)
    await wait_for_state(backend, container_id, ContainerState.RUNNING)


async def test_it_ends_with_its_control_plane_and_leaves_runs_alone(
    process_harness: ProcessHarness,
) -> None:
    backend = await process_harness.open_backend()
    container_id = await start_and_wait(process_harness, backend, FIRST)
    (nursery,) = nurseries()
    await backend.close()
    assert not nursery.is_running()
    successor = await process_harness.open_backend()
    assert (await observe(successor, container_id)).state is ContainerState.RUNNING


async def test_a_launcher_has_nothing_of_it(process_harness: ProcessHarness) -> None:
    """Neither its socket, which would outlive it, nor its session; and its folder tells whose."""
    backend = await process_harness.open_backend()
    container_id = await start_and_wait(process_harness, backend, FIRST)
    run = ContainerDirectory(str(process_harness.root), container_id).last_run()
    assert run is not None
    opened = [str(each.readlink()) for each in Path(f"/proc/{run.pid}/fd").iterdir()]
    assert not [name for name in opened if name.startswith("socket:")]
    assert os.getsid(run.pid) == run.pid
    assert psutil.Process(run.pid).cwd() == str(process_harness.directory(container_id))


async def test_many_starts_at_once(process_harness: ProcessHarness) -> None:
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


async def test_one_that_takes_no_orders_holds_up_nobody(tmp_path: Path) -> None:
    """A suspended one, as in a frozen cgroup. Whoever starts bots gets an error at once."""
    nursery = Nursery({})
    order = tmp_path / "order"
    order.write_text("{}")
    with order.open("rb") as file:
        os.close(nursery.fork(file.fileno()))
        (process,) = nurseries()
        process.suspend()
        with pytest.raises(BlockingIOError):
            for _ in range(10_000):
                os.close(nursery.fork(file.fileno()))
    process.resume()
    await asyncio.to_thread(nursery.close)
    assert not nurseries()
