"""Tests of calls that arrive late: a paused replica sends them after another has taken over.

A call names the newest assignment that it may end. These tests send it when a later one has the
container already, which is what a replica does that was stopped with SIGSTOP beyond its lease.
"""

import pytest

from botpool.backends.protocol import Backend
from botpool.domain.errors import CallSuperseded, ContainerGone, StartSuperseded
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import ENDED_STATES, ContainerState
from tests.backends.harness import (
    SPEC,
    TIMEOUT_S,
    Harness,
    delete,
    eventually,
    observe,
    prepared,
    start,
    start_and_wait,
    start_request,
    wait_for_state,
    wait_until_down,
)

BEFORE, FIRST, SECOND = AssignmentId(10), AssignmentId(11), AssignmentId(12)


async def ensure(backend: Backend, stop_through: AssignmentId) -> ContainerId:
    return await backend.ensure(SPEC, stop_through=stop_through, timeout_s=TIMEOUT_S)


async def stop(backend: Backend, container_id: ContainerId, number: AssignmentId) -> None:
    await backend.stop(container_id, number, timeout_s=TIMEOUT_S)
    await wait_until_down(backend, container_id)


async def assert_still_runs(
    harness: Harness, backend: Backend, container_id: ContainerId, number: AssignmentId
) -> None:
    await eventually(lambda: harness.runs(number))
    await wait_for_state(backend, container_id, ContainerState.RUNNING)
    assert len(harness.runs(number)) == 1


async def hand_over(harness: Harness, backend: Backend) -> ContainerId:
    """Run FIRST, stop it, and run SECOND in the same container."""
    container_id = await start_and_wait(harness, backend, FIRST)
    await stop(backend, container_id, FIRST)
    assert await start_and_wait(harness, backend, SECOND) == container_id
    return container_id


class LateCallConformance:
    async def test_late_ensure_leaves_its_own_bot_alone(self, harness: Harness) -> None:
        """Another replica ensured the container and started the bot while the call was paused."""
        backend, late = await harness.open_backend(), await harness.open_backend()
        container_id = await start_and_wait(harness, backend, FIRST)
        with pytest.raises(CallSuperseded):
            await ensure(late, BEFORE)
        await assert_still_runs(harness, backend, container_id, FIRST)

    async def test_late_ensure_leaves_the_next_bot_alone(self, harness: Harness) -> None:
        backend, late = await harness.open_backend(), await harness.open_backend()
        container_id = await hand_over(harness, backend)
        for through in (BEFORE, FIRST):
            with pytest.raises(CallSuperseded):
                await ensure(late, through)
        await assert_still_runs(harness, backend, container_id, SECOND)

    async def test_late_ensure_leaves_a_start_in_progress_alone(self, harness: Harness) -> None:
        backend, late = await harness.open_backend(start_s=1), await harness.open_backend()
        container_id = await ensure(backend, BEFORE)
        request = start_request(harness, container_id, FIRST)
        await start(backend, request)
        with pytest.raises(CallSuperseded):
            await ensure(late, BEFORE)
        await assert_still_runs(harness, backend, container_id, FIRST)

    async def test_late_stop_leaves_the_next_bot_alone(self, harness: Harness) -> None:
        backend, late = await harness.open_backend(), await harness.open_backend()
        container_id = await hand_over(harness, backend)
        await late.stop(container_id, FIRST, timeout_s=TIMEOUT_S)
        await assert_still_runs(harness, backend, container_id, SECOND)

    async def test_late_stop_does_not_allow_a_stopped_assignment(self, harness: Harness) -> None:
        backend, late = await harness.open_backend(), await harness.open_backend()
        container_id = await ensure(backend, BEFORE)
        request = await prepared(late, start_request(harness, container_id, SECOND))
        await stop(backend, container_id, SECOND)
        await stop(late, container_id, FIRST)
        with pytest.raises(StartSuperseded):
            await late.start(request, timeout_s=TIMEOUT_S)
        assert (await observe(backend, container_id)).state in ENDED_STATES
        assert not harness.runs(SECOND)

    async def test_late_delete_leaves_the_next_bot_alone(self, harness: Harness) -> None:
        backend, late = await harness.open_backend(), await harness.open_backend()
        container_id = await hand_over(harness, backend)
        with pytest.raises(CallSuperseded):
            await delete(late, container_id, FIRST)
        await assert_still_runs(harness, backend, container_id, SECOND)

    async def test_late_delete_leaves_a_new_container_alone(self, harness: Harness) -> None:
        """On Docker, the new container has the deleted container's id."""
        backend, late = await harness.open_backend(), await harness.open_backend()
        deleted = await start_and_wait(harness, backend, FIRST)
        await delete(backend, deleted, FIRST)
        await wait_for_state(backend, deleted, ContainerState.GONE)
        container_id = await start_and_wait(harness, backend, SECOND)
        if container_id == deleted:
            with pytest.raises(CallSuperseded):
                await delete(late, deleted, FIRST)
        else:
            await delete(late, deleted, FIRST)
        await assert_still_runs(harness, backend, container_id, SECOND)

    async def test_late_start_does_not_run_in_a_new_container(self, harness: Harness) -> None:
        backend, late = await harness.open_backend(), await harness.open_backend()
        deleted = await start_and_wait(harness, backend, BEFORE)
        await delete(backend, deleted, BEFORE)
        await wait_for_state(backend, deleted, ContainerState.GONE)
        request = await prepared(late, start_request(harness, deleted, FIRST))
        container_id = await ensure(backend, FIRST)
        with pytest.raises((StartSuperseded, ContainerGone)):
            await late.start(request, timeout_s=TIMEOUT_S)
        assert (await observe(backend, container_id)).state in ENDED_STATES
        assert not harness.runs(FIRST)
