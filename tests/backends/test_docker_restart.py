"""A daemon that is told to let containers live goes away and comes back."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from botpool.domain.errors import BackendUnavailable
from botpool.domain.ids import AssignmentId
from botpool.domain.observation import ContainerState
from tests.backends.docker_harness import DockerHarness
from tests.backends.harness import look, output, running, seen_down
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


async def test_with_live_restore_a_bot_outlives_its_daemon(harness: DockerHarness) -> None:
    backend = await harness.control_plane()
    container_id = await running(harness, backend, FIRST, "print 3")
    harness.dockerd.kill()
    with pytest.raises(BackendUnavailable):
        await look(backend, container_id)
    harness.dockerd.start()
    assert (await look(backend, container_id)).state is ContainerState.RUNNING
    assert len(harness.runs(FIRST)) == 1
    await backend.stop(container_id, FIRST, timeout_s=10)
    await seen_down(backend, container_id)
    assert await output(backend, container_id, FIRST) == b"line 1\nline 2\nline 3\n"
