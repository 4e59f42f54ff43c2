"""Tests of the rules that every backend keeps. Subclasses provide a `harness` fixture."""

import asyncio
import random
import time
from contextlib import suppress

import pytest

from botpool.backends.protocol import Backend, ContainerSpec, StartRequest
from botpool.domain.errors import BackendUnavailable, ContainerGone, StartSuperseded
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import ENDED_STATES, ContainerState
from tests.backends.harness import (
    SPEC,
    TIMEOUT_S,
    Harness,
    delete,
    eventually,
    observe,
    output,
    prepared,
    start,
    start_and_wait,
    start_request,
    wait_for_state,
    wait_until_down,
)
from tests.backends.late_calls import LateCallConformance
from tests.support.fences import ANY_ASSIGNMENT, NO_ASSIGNMENT

FIRST, SECOND = AssignmentId(11), AssignmentId(12)
UP = frozenset({ContainerState.STARTING, ContainerState.RUNNING})


async def ensure(
    backend: Backend, spec: ContainerSpec = SPEC, *, stop_through: AssignmentId = NO_ASSIGNMENT
) -> ContainerId:
    return await backend.ensure(spec, stop_through=stop_through, timeout_s=TIMEOUT_S)


async def stop(backend: Backend, container_id: ContainerId, number: int) -> None:
    await backend.stop(container_id, AssignmentId(number), timeout_s=TIMEOUT_S)


async def ensure_stopped(harness: Harness, backend: Backend) -> ContainerId:
    """Call ensure until the container is stopped and returned."""
    give_up_at = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return await ensure(backend, stop_through=FIRST)
        except BackendUnavailable:
            assert not harness.capabilities.takes_effect_at_once
            assert time.monotonic() < give_up_at
            await asyncio.sleep(0.005)


async def wait_until_gone(harness: Harness, backend: Backend, container_id: ContainerId) -> None:
    if harness.capabilities.takes_effect_at_once:
        assert (await observe(backend, container_id)).state is ContainerState.GONE
    else:
        await wait_for_state(backend, container_id, ContainerState.GONE)


def idle_states(harness: Harness) -> frozenset[ContainerState]:
    """Return the states of a slot that has no run."""
    if harness.capabilities.has_idle_containers:
        return ENDED_STATES - {ContainerState.GONE}
    return frozenset({ContainerState.GONE})


class EnsureConformance:
    async def test_repeated_ensure_creates_one_container(self, harness: Harness) -> None:
        backend = await harness.open_backend()
        first = await ensure(backend)
        assert await ensure(backend) == first
        assert (await observe(backend, first)).state in idle_states(harness)

    async def test_ensure_finds_container_of_previous_replica(self, harness: Harness) -> None:
        created = await ensure(await harness.open_backend())
        assert await ensure(await harness.open_backend()) == created

    async def test_concurrent_ensure_creates_one_container(self, harness: Harness) -> None:
        replicas = [await harness.open_backend() for _ in range(3)]
        created = await asyncio.gather(*(ensure(each) for each in replicas * 3))
        assert len(set(created)) == 1

    async def test_ensure_takes_oldest_of_duplicates(self, harness: Harness) -> None:
        backend = await harness.open_backend()
        oldest = await ensure(backend)
        for _ in range(3):
            await harness.duplicate(oldest)
        assert await ensure(await harness.open_backend()) == oldest

    async def test_ensure_stops_running_container(self, harness: Harness) -> None:
        container_id = await start_and_wait(harness, await harness.open_backend(), FIRST)
        backend = await harness.open_backend()
        assert await ensure_stopped(harness, backend) == container_id
        assert (await observe(backend, container_id)).state in ENDED_STATES

    async def test_list_shows_each_container_with_its_name(self, harness: Harness) -> None:
        backend = await harness.open_backend()
        other = ContainerSpec(name="pool-zoom-007", pool_name="zoom", image="bot:1")
        created = {(await ensure(backend), SPEC.name), (await ensure(backend, other), other.name)}
        for spec in (SPEC, other):
            (container_id,) = (each for each, name in created if name == spec.name)
            await prepared(backend, start_request(harness, container_id, FIRST), spec)
        listed = await backend.list_owned(timeout_s=TIMEOUT_S)
        assert {(found.container_id, found.name) for found in listed} == created

    async def test_installations_do_not_touch_each_other(self, harness: Harness) -> None:
        ours, theirs = await harness.open_backend("one"), await harness.open_backend("two")
        container_id = await start_and_wait(harness, ours, FIRST)
        other = await ensure(theirs)
        assert other != container_id
        await prepared(theirs, start_request(harness, other, FIRST))
        listed = await theirs.list_owned(timeout_s=TIMEOUT_S)
        assert [found.container_id for found in listed] == [other]
        refusal = ContainerGone if harness.capabilities.recognizes_owners else BackendUnavailable
        with pytest.raises(refusal):
            await stop(theirs, container_id, FIRST)
        with suppress(BackendUnavailable):
            await theirs.delete(container_id, stop_through=ANY_ASSIGNMENT, timeout_s=TIMEOUT_S)
        assert (await observe(ours, container_id)).state is ContainerState.RUNNING


class StartConformance:
    async def test_started_container_is_never_observed_stopped(self, harness: Harness) -> None:
        backend = await harness.open_backend()
        container_id = await ensure(backend)
        await start(backend, start_request(harness, container_id, FIRST))
        assert (await observe(backend, container_id)).state in UP
        observation = await wait_for_state(backend, container_id, ContainerState.RUNNING)
        assert observation.assignment_id in (FIRST, None)

    async def test_repeated_start_does_not_run_again(self, harness: Harness) -> None:
        backend, replica = await harness.open_backend(), await harness.open_backend()
        container_id = await start_and_wait(harness, backend, FIRST)
        again = start_request(harness, container_id, FIRST)
        await asyncio.gather(*(start(each, again) for each in (backend, replica)))
        assert (await observe(backend, container_id)).state is ContainerState.RUNNING
        assert len(harness.runs(FIRST)) == 1

    async def test_concurrent_starts_run_once(self, harness: Harness) -> None:
        replicas = [await harness.open_backend() for _ in range(3)]
        container_id = await ensure(replicas[0])
        request = start_request(harness, container_id, FIRST)
        await asyncio.gather(*(start(each, request) for each in replicas))
        await eventually(lambda: harness.runs(FIRST))
        assert len(harness.runs(FIRST)) == 1

    async def test_ended_assignment_does_not_run_again(self, harness: Harness) -> None:
        backend = await harness.open_backend()
        container_id = await start_and_wait(harness, backend, FIRST, "exit 0")
        await wait_until_down(backend, container_id)
        await start(backend, start_request(harness, container_id, FIRST, "exit 0"))
        await wait_until_down(backend, container_id)
        assert len(harness.runs(FIRST)) == 1

    async def test_start_is_superseded_while_another_assignment_runs(
        self, harness: Harness
    ) -> None:
        backend = await harness.open_backend()
        container_id = await start_and_wait(harness, backend, FIRST)
        if not harness.capabilities.has_idle_containers:
            return  # The engine records no second run before the stop of the first is confirmed.
        with pytest.raises(StartSuperseded):
            await start(backend, start_request(harness, container_id, SECOND))
        assert (await observe(backend, container_id)).state is ContainerState.RUNNING
        assert not harness.runs(SECOND)

    async def test_exit_code_is_observed(self, harness: Harness) -> None:
        backend = await harness.open_backend()
        container_id = await start_and_wait(harness, backend, FIRST, "exit 3")
        observation = await wait_for_state(backend, container_id, ContainerState.EXITED)
        assert observation.exit_code == (3 if harness.capabilities.shows_exit_codes else None)
        assert observation.assignment_id in (FIRST, None)

    async def test_next_run_gets_no_variables_or_files_of_previous_run(
        self, harness: Harness
    ) -> None:
        backend = await harness.open_backend()
        container_id = await start_and_wait(harness, backend, FIRST, SECRET="of the first meeting")
        assert harness.runs(FIRST)[0].environment["SECRET"] == "of the first meeting"
        await stop(backend, container_id, FIRST)
        await wait_until_down(backend, container_id)
        await start_and_wait(harness, backend, SECOND)
        (run,) = harness.runs(SECOND)
        assert not run.environment.get("SECRET")
        assert "SECRET" not in run.environment or not harness.capabilities.removes_variables
        assert "left-behind" not in run.files

    async def test_crash_during_start_runs_assignment_once(self, harness: Harness) -> None:
        container_id = await ensure(await harness.open_backend())
        request = start_request(harness, container_id, FIRST)
        await harness.crash_during_start(request)
        successor = await harness.open_backend()
        await start(successor, request)
        await eventually(lambda: harness.runs(FIRST))
        assert (await wait_for_state(successor, container_id, ContainerState.RUNNING)).state in UP
        assert len(harness.runs(FIRST)) == 1
        await stop(successor, container_id, FIRST)
        await wait_until_down(successor, container_id)


class StopConformance:
    async def test_observation_confirms_stop(self, harness: Harness) -> None:
        backend = await harness.open_backend()
        container_id = await start_and_wait(harness, backend, FIRST)
        await stop(backend, container_id, FIRST)
        await wait_until_down(backend, container_id)
        await stop(backend, container_id, FIRST)
        assert (await observe(backend, container_id)).state in ENDED_STATES

    async def test_stop_includes_earlier_assignments(self, harness: Harness) -> None:
        backend = await harness.open_backend()
        container_id = await start_and_wait(harness, backend, FIRST)
        await stop(backend, container_id, SECOND)
        await wait_until_down(backend, container_id)
        if not harness.capabilities.has_idle_containers:
            return  # A run that is not prepared yet is not recorded after its stop.
        with pytest.raises(StartSuperseded):
            await start(backend, start_request(harness, container_id, SECOND))

    async def test_other_replica_can_stop(self, harness: Harness) -> None:
        container_id = await start_and_wait(harness, await harness.open_backend(), FIRST)
        successor = await harness.open_backend()
        await stop(successor, container_id, FIRST)
        await wait_until_down(successor, container_id)

    async def test_program_that_ignores_sigterm_is_killed(self, harness: Harness) -> None:
        backend = await harness.open_backend()
        container_id = await start_and_wait(harness, backend, FIRST, "stubborn")
        await stop(backend, container_id, FIRST)
        await wait_until_down(backend, container_id)

    async def test_start_after_its_stop_is_superseded(self, harness: Harness) -> None:
        backend, replica = await harness.open_backend(), await harness.open_backend()
        container_id = await ensure(backend)
        request = await prepared(replica, start_request(harness, container_id, FIRST))
        await stop(backend, container_id, FIRST)
        with pytest.raises(StartSuperseded):
            await replica.start(request, timeout_s=TIMEOUT_S)
        assert (await observe(backend, container_id)).state in ENDED_STATES
        await start_and_wait(harness, backend, SECOND)
        assert not harness.runs(FIRST)

    async def test_stop_ends_start_in_progress(self, harness: Harness) -> None:
        backend = await harness.open_backend(start_s=60)
        container_id = await ensure(backend)
        await start(backend, start_request(harness, container_id, FIRST))
        assert (await observe(backend, container_id)).state in UP
        await stop(backend, container_id, FIRST)
        await wait_until_down(backend, container_id)

    async def test_concurrent_start_and_stop_end_stopped(self, harness: Harness) -> None:
        backend, replica = await harness.open_backend(), await harness.open_backend()
        container_id = await ensure(backend)
        randomness = random.Random(7)

        async def start_soon(request: StartRequest) -> None:
            await asyncio.sleep(randomness.random() * 0.03)
            await replica.start(request, timeout_s=TIMEOUT_S)

        async def stop_soon(number: int) -> None:
            await asyncio.sleep(randomness.random() * 0.08)
            await stop(backend, container_id, number)

        for number in range(100, 100 + harness.capabilities.race_rounds):
            request = await prepared(replica, start_request(harness, container_id, number))
            started, stopped = await asyncio.gather(
                start_soon(request), stop_soon(number), return_exceptions=True
            )
            assert started is None or isinstance(started, StartSuperseded)
            assert stopped is None
            await wait_until_down(backend, container_id)
            assert len(harness.runs(AssignmentId(number))) <= 1


class DeletionConformance:
    async def test_deleted_container_is_gone(self, harness: Harness) -> None:
        backend = await harness.open_backend()
        container_id = await start_and_wait(harness, backend, FIRST)
        for _ in range(2):
            await delete(backend, container_id, ANY_ASSIGNMENT)
            await wait_until_gone(harness, backend, container_id)
        assert not await backend.list_owned(timeout_s=TIMEOUT_S)
        if not harness.capabilities.has_idle_containers:
            return
        with pytest.raises(ContainerGone):
            await start(backend, start_request(harness, container_id, SECOND))
        with pytest.raises(ContainerGone):
            await stop(backend, container_id, FIRST)
        with pytest.raises(ContainerGone):
            await backend.describe(container_id, "[IDLE]", timeout_s=TIMEOUT_S)

    async def test_container_is_created_again_after_deletion(self, harness: Harness) -> None:
        backend = await harness.open_backend()
        container_id = await ensure(backend)
        await backend.delete(container_id, stop_through=ANY_ASSIGNMENT, timeout_s=TIMEOUT_S)
        await start_and_wait(harness, backend, FIRST)

    @pytest.mark.parametrize("unknown", ["pool-teams-001.abcdef", "..", "../..", "a/b", "", "\0"])
    async def test_unknown_container_id_is_gone(self, harness: Harness, unknown: str) -> None:
        backend = await harness.open_backend()
        container_id = await ensure(backend)
        both = await backend.observe([container_id, ContainerId(unknown)], timeout_s=TIMEOUT_S)
        assert both[ContainerId(unknown)].state is ContainerState.GONE
        assert both[container_id].state in idle_states(harness)
        with pytest.raises(ContainerGone):
            await stop(backend, ContainerId(unknown), FIRST)

    async def test_outage_is_unavailable_and_changes_nothing(self, harness: Harness) -> None:
        backend = await harness.open_backend()
        container_id = await start_and_wait(harness, backend, FIRST)
        with harness.outage():
            for call in (
                backend.observe([container_id], timeout_s=TIMEOUT_S),
                backend.list_owned(timeout_s=TIMEOUT_S),
                backend.ensure(SPEC, stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S),
                start(backend, start_request(harness, container_id, SECOND)),
                backend.stop(container_id, FIRST, timeout_s=TIMEOUT_S),
                backend.delete(container_id, stop_through=ANY_ASSIGNMENT, timeout_s=TIMEOUT_S),
                backend.check(timeout_s=TIMEOUT_S),
            ):
                with pytest.raises(BackendUnavailable):
                    await call
        assert (await observe(backend, container_id)).state is ContainerState.RUNNING
        assert (await backend.check(timeout_s=TIMEOUT_S)).ok


class LogsAndHealthConformance:
    async def test_logs_return_output_and_tail(self, harness: Harness) -> None:
        backend = await harness.open_backend()
        container_id = await start_and_wait(harness, backend, FIRST, "print 100")
        if harness.capabilities.keeps_output:
            await stop(backend, container_id, FIRST)
            await wait_until_down(backend, container_id)
        whole = b"".join(b"line %d\n" % number for number in range(1, 101))
        assert await output(backend, container_id, FIRST) == whole
        assert await output(backend, container_id, FIRST, tail=2) == b"line 99\nline 100\n"
        assert await output(backend, container_id, FIRST, tail=0) == b""
        assert await output(backend, container_id, SECOND) == b""
        if harness.capabilities.keeps_output is False:
            await stop(backend, container_id, FIRST)
            await wait_until_down(backend, container_id)
            assert await output(backend, container_id, FIRST) == b""

    async def test_followed_logs_end_with_the_run(self, harness: Harness) -> None:
        backend = await harness.open_backend()
        container_id = await start_and_wait(harness, backend, FIRST, "print 3")
        following = asyncio.create_task(output(backend, container_id, FIRST, follow=True))
        await asyncio.sleep(0.05)
        assert not following.done()
        await stop(backend, container_id, FIRST)
        async with asyncio.timeout(TIMEOUT_S):
            assert await following == b"line 1\nline 2\nline 3\n"

    async def test_description_can_be_written(self, harness: Harness) -> None:
        backend = await harness.open_backend()
        container_id = await ensure(backend)
        await backend.describe(container_id, "[BUSY] Bot #7", timeout_s=TIMEOUT_S)

    async def test_check_is_ok(self, harness: Harness) -> None:
        backend = await harness.open_backend()
        assert (await backend.check(timeout_s=TIMEOUT_S)).ok


class BackendConformance(
    EnsureConformance,
    StartConformance,
    StopConformance,
    DeletionConformance,
    LogsAndHealthConformance,
    LateCallConformance,
):
    """The complete suite."""
