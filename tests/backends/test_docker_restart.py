"""Restart of a daemon with `--live-restore`."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from botpool.domain.errors import BackendUnavailable
from botpool.domain.ids import AssignmentId
from botpool.domain.observation import ContainerState
from tests.backends.docker_harness import DockerHarness
from tests.backends.harness import observe, output, start_and_wait, wait_until_down
from tests.support.docker_host import docker_host

FIRST = AssignmentId(11)
pytestmark = pytest.mark.long


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[DockerHarness]:
    with docker_host("--live-restore") as daemon:
        harness = DockerHarness(daemon, tmp_path)
        await harness.open()
        yield harness
        await harness.clear()


async def test_bot_survives_daemon_restart_with_live_restore(harness: DockerHarness) -> None:
    backend = await harness.open_backend()
    container_id = await start_and_wait(harness, backend, FIRST, "print 3")
    harness.dockerd.kill()
    with pytest.raises(BackendUnavailable):
        await observe(backend, container_id)
    harness.dockerd.start()
    assert (await observe(backend, container_id)).state is ContainerState.RUNNING
    assert len(harness.runs(FIRST)) == 1
    await backend.stop(container_id, FIRST, timeout_s=10)
    await wait_until_down(backend, container_id)
    assert await output(backend, container_id, FIRST) == b"line 1\nline 2\nline 3\n"
