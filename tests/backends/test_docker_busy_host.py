"""Calls that meet on a busy Docker host, where each request may take seconds."""

import asyncio
import time
from collections.abc import Awaitable
from unittest import mock

from botpool.backends.docker.daemon import ConcurrentChange, Daemon
from botpool.backends.docker.slot_containers import Container, SlotContainers
from botpool.domain.ids import AssignmentId, ContainerId
from tests.backends.docker_harness import DockerHarness
from tests.backends.harness import SPEC, TIMEOUT_S, start_request, wait_until_down
from tests.support.fences import ANY_ASSIGNMENT, NO_ASSIGNMENT

MOST_REQUESTS = 60
"""About twenty are usual; each wait for the other call adds two or three."""


async def test_start_and_stop_that_meet_send_few_requests(docker_harness: DockerHarness) -> None:
    """On a busy host each request may take seconds, so their number decides how long both take."""
    backend, replica = [await docker_harness.open_backend() for _ in range(2)]
    container_id = await backend.ensure(SPEC, stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S)
    send, sent = Daemon._send, []

    async def counted(daemon: Daemon, request: Awaitable[object]) -> object:
        sent.append(daemon.call)
        return await send(daemon, request)

    with mock.patch.object(Daemon, "_send", counted):
        for number in range(20, 30):
            sent.clear()
            request = start_request(docker_harness, container_id, number)
            await asyncio.gather(
                replica.start(request, timeout_s=TIMEOUT_S),
                backend.stop(container_id, AssignmentId(number), timeout_s=TIMEOUT_S),
                return_exceptions=True,
            )
            assert len(sent) <= MOST_REQUESTS, sent
            await wait_until_down(backend, container_id)


async def test_waits_for_a_slow_removal_grow(docker_harness: DockerHarness) -> None:
    """A container whose removal takes seconds is not read a hundred times a second."""
    backend = await docker_harness.open_backend()
    container_id = await backend.ensure(SPEC, stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S)
    read, remove = Daemon.read_slot, Daemon.remove
    reads, removable_at = [], time.monotonic() + 2

    async def counted(daemon: Daemon, wanted: ContainerId) -> SlotContainers:
        reads.append(wanted)
        return await read(daemon, wanted)

    async def slow_remove(daemon: Daemon, container: Container, *, force: bool = False) -> None:
        if time.monotonic() < removable_at:
            raise ConcurrentChange
        await remove(daemon, container, force=force)

    with (
        mock.patch.object(Daemon, "read_slot", counted),
        mock.patch.object(Daemon, "remove", slow_remove),
    ):
        await backend.delete(container_id, stop_through=ANY_ASSIGNMENT, timeout_s=TIMEOUT_S)
    assert len(reads) < 20
