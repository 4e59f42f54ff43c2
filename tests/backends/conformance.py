"""What every backend promises the engine. Bind it to one with a `harness` fixture in a subclass."""

import asyncio
import random
import time
from contextlib import suppress

import pytest

from botpool.backends.protocol import Backend, ContainerSpec
from botpool.domain.errors import BackendUnavailable, ContainerGone, StartSuperseded
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.observation import DOWN, ContainerState
from tests.backends.harness import (
    SPEC,
    TIMEOUT_S,
    Harness,
    eventually,
    look,
    order,
    output,
    running,
    seen,
    seen_down,
)

FIRST, SECOND = AssignmentId(11), AssignmentId(12)
UP = frozenset({ContainerState.STARTING, ContainerState.RUNNING})


async def ensure(backend: Backend, spec: ContainerSpec = SPEC) -> ContainerId:
    return await backend.ensure(spec, timeout_s=TIMEOUT_S)


async def stop(backend: Backend, container_id: ContainerId, number: int | None) -> None:
    assignment_id = AssignmentId(number) if number is not None else None
    await backend.stop(container_id, assignment_id, timeout_s=TIMEOUT_S)


async def ensure_vacated(harness: Harness, backend: Backend) -> ContainerId:
    """Ensure what may be running; where a stop takes its time, again until it is handed out."""
    give_up_at = time.monotonic() + TIMEOUT_S
    while True:
        try:
            return await ensure(backend)
        except BackendUnavailable:
            assert not harness.traits.is_prompt
            assert time.monotonic() < give_up_at
            await asyncio.sleep(0.005)


async def seen_gone(harness: Harness, backend: Backend, container_id: ContainerId) -> None:
    if harness.traits.is_prompt:
        assert (await look(backend, container_id)).state is ContainerState.GONE
    else:
        await seen(backend, container_id, ContainerState.GONE)


class EnsureConformance:
    async def test_ensure_makes_one_container_however_often(self, harness: Harness) -> None:
        backend = await harness.control_plane()
        first = await ensure(backend)
        assert await ensure(backend) == first
        assert (await look(backend, first)).state in DOWN - {ContainerState.GONE}

    async def test_ensure_finds_what_a_former_control_plane_made(self, harness: Harness) -> None:
        made = await ensure(await harness.control_plane())
        assert await ensure(await harness.control_plane()) == made

    async def test_replicas_that_ensure_at_once_make_one_container(self, harness: Harness) -> None:
        replicas = [await harness.control_plane() for _ in range(3)]
        made = await asyncio.gather(*(ensure(each) for each in replicas * 3))
        assert len(set(made)) == 1

    async def test_of_duplicates_ensure_takes_the_oldest(self, harness: Harness) -> None:
        backend = await harness.control_plane()
        oldest = await ensure(backend)
        for _ in range(3):
            await harness.duplicate(oldest)
        assert await ensure(await harness.control_plane()) == oldest

    async def test_ensure_hands_out_nothing_that_runs(self, harness: Harness) -> None:
        container_id = await running(harness, await harness.control_plane(), FIRST)
        backend = await harness.control_plane()
        assert await ensure_vacated(harness, backend) == container_id
        assert (await look(backend, container_id)).state in DOWN

    async def test_list_shows_each_container_with_its_name(self, harness: Harness) -> None:
        backend = await harness.control_plane()
        other = ContainerSpec(name="pool-zoom-007", pool_name="zoom", image="bot:1")
        made = {(await ensure(backend), SPEC.name), (await ensure(backend, other), other.name)}
        listed = await backend.list_owned(timeout_s=TIMEOUT_S)
        assert {(found.container_id, found.name) for found in listed} == made

    async def test_installations_do_not_see_each_other(self, harness: Harness) -> None:
        ours, theirs = await harness.control_plane("one"), await harness.control_plane("two")
        container_id = await running(harness, ours, FIRST)
        other = await ensure(theirs)
        assert other != container_id
        listed = await theirs.list_owned(timeout_s=TIMEOUT_S)
        assert [found.container_id for found in listed] == [other]
        refusal = ContainerGone if harness.traits.knows_owners else BackendUnavailable
        with pytest.raises(refusal):
            await stop(theirs, container_id, FIRST)
        with suppress(BackendUnavailable):
            await theirs.delete(container_id, timeout_s=TIMEOUT_S)
        assert (await look(ours, container_id)).state is ContainerState.RUNNING


class StartConformance:
    async def test_a_started_container_is_never_seen_stopped(self, harness: Harness) -> None:
        backend = await harness.control_plane()
        container_id = await ensure(backend)
        await backend.start(order(harness, container_id, FIRST), timeout_s=TIMEOUT_S)
        assert (await look(backend, container_id)).state in UP
        observation = await seen(backend, container_id, ContainerState.RUNNING)
        assert observation.assignment_id in (FIRST, None)

    async def test_starting_again_does_not_run_again(self, harness: Harness) -> None:
        backend, replica = await harness.control_plane(), await harness.control_plane()
        container_id = await running(harness, backend, FIRST)
        again = order(harness, container_id, FIRST)
        await asyncio.gather(
            *(each.start(again, timeout_s=TIMEOUT_S) for each in (backend, replica))
        )
        assert (await look(backend, container_id)).state is ContainerState.RUNNING
        assert len(harness.runs(FIRST)) == 1

    async def test_replicas_that_start_at_once_run_it_once(self, harness: Harness) -> None:
        replicas = [await harness.control_plane() for _ in range(3)]
        container_id = await ensure(replicas[0])
        wanted = order(harness, container_id, FIRST)
        await asyncio.gather(*(each.start(wanted, timeout_s=TIMEOUT_S) for each in replicas))
        await eventually(lambda: harness.runs(FIRST))
        assert len(harness.runs(FIRST)) == 1

    async def test_what_ran_and_ended_does_not_run_again(self, harness: Harness) -> None:
        backend = await harness.control_plane()
        container_id = await running(harness, backend, FIRST, "exit 0")
        await seen_down(backend, container_id)
        await backend.start(order(harness, container_id, FIRST, "exit 0"), timeout_s=TIMEOUT_S)
        await seen_down(backend, container_id)
        assert len(harness.runs(FIRST)) == 1

    async def test_nothing_starts_where_another_runs(self, harness: Harness) -> None:
        backend = await harness.control_plane()
        container_id = await running(harness, backend, FIRST)
        with pytest.raises(StartSuperseded):
            await backend.start(order(harness, container_id, SECOND), timeout_s=TIMEOUT_S)
        assert (await look(backend, container_id)).state is ContainerState.RUNNING
        assert not harness.runs(SECOND)

    async def test_the_exit_code_is_seen(self, harness: Harness) -> None:
        backend = await harness.control_plane()
        container_id = await running(harness, backend, FIRST, "exit 3")
        observation = await seen(backend, container_id, ContainerState.EXITED)
        assert observation.exit_code == (3 if harness.traits.shows_exit_codes else None)
        assert observation.assignment_id in (FIRST, None)

    async def test_the_next_run_sees_nothing_of_the_former(self, harness: Harness) -> None:
        backend = await harness.control_plane()
        container_id = await running(harness, backend, FIRST, SECRET="of the first meeting")
        assert harness.runs(FIRST)[0].environment["SECRET"] == "of the first meeting"
        await stop(backend, container_id, FIRST)
        await seen_down(backend, container_id)
        await running(harness, backend, SECOND)
        (witness,) = harness.runs(SECOND)
        assert not witness.environment.get("SECRET")
        assert "SECRET" not in witness.environment or not harness.traits.removes_variables
        assert "left-behind" not in witness.files

    async def test_a_crash_in_the_start_neither_loses_nor_doubles_it(
        self, harness: Harness
    ) -> None:
        container_id = await ensure(await harness.control_plane())
        wanted = order(harness, container_id, FIRST)
        await harness.crash_in_start(wanted)
        successor = await harness.control_plane()
        await successor.start(wanted, timeout_s=TIMEOUT_S)
        await eventually(lambda: harness.runs(FIRST))
        assert (await seen(successor, container_id, ContainerState.RUNNING)).state in UP
        assert len(harness.runs(FIRST)) == 1
        await stop(successor, container_id, FIRST)
        await seen_down(successor, container_id)


class StopConformance:
    async def test_a_look_confirms_the_stop(self, harness: Harness) -> None:
        backend = await harness.control_plane()
        container_id = await running(harness, backend, FIRST)
        await stop(backend, container_id, FIRST)
        await seen_down(backend, container_id)
        await stop(backend, container_id, FIRST)
        assert (await look(backend, container_id)).state in DOWN

    async def test_a_stop_needs_no_assignment(self, harness: Harness) -> None:
        backend = await harness.control_plane()
        container_id = await running(harness, backend, FIRST)
        await stop(backend, container_id, None)
        await seen_down(backend, container_id)
        await running(harness, backend, SECOND)

    async def test_a_successor_stops_what_it_did_not_start(self, harness: Harness) -> None:
        container_id = await running(harness, await harness.control_plane(), FIRST)
        successor = await harness.control_plane()
        await stop(successor, container_id, FIRST)
        await seen_down(successor, container_id)

    async def test_a_program_that_ignores_the_request_is_killed(self, harness: Harness) -> None:
        backend = await harness.control_plane()
        container_id = await running(harness, backend, FIRST, "stubborn")
        await stop(backend, container_id, FIRST)
        await seen_down(backend, container_id)

    async def test_a_start_that_comes_after_its_stop_runs_nothing(self, harness: Harness) -> None:
        backend, replica = await harness.control_plane(), await harness.control_plane()
        container_id = await ensure(backend)
        await stop(backend, container_id, FIRST)
        with pytest.raises(StartSuperseded):
            await replica.start(order(harness, container_id, FIRST), timeout_s=TIMEOUT_S)
        assert (await look(backend, container_id)).state in DOWN
        await running(harness, backend, SECOND)
        assert not harness.runs(FIRST)

    async def test_a_stop_ends_a_start_that_is_under_way(self, harness: Harness) -> None:
        backend = await harness.control_plane(start_s=60)
        container_id = await ensure(backend)
        await backend.start(order(harness, container_id, FIRST), timeout_s=TIMEOUT_S)
        assert (await look(backend, container_id)).state in UP
        await stop(backend, container_id, FIRST)
        await seen_down(backend, container_id)

    async def test_however_start_and_stop_meet_it_ends_down(self, harness: Harness) -> None:
        backend, replica = await harness.control_plane(), await harness.control_plane()
        container_id = await ensure(backend)
        chance = random.Random(7)

        async def start(number: int) -> None:
            await asyncio.sleep(chance.random() * 0.03)
            wanted = order(harness, container_id, number)
            await replica.start(wanted, timeout_s=TIMEOUT_S)

        async def stop_soon(number: int) -> None:
            await asyncio.sleep(chance.random() * 0.08)
            await stop(backend, container_id, number)

        for number in range(100, 125):
            started, stopped = await asyncio.gather(
                start(number), stop_soon(number), return_exceptions=True
            )
            assert started is None or isinstance(started, StartSuperseded)
            assert stopped is None
            await seen_down(backend, container_id)
            assert len(harness.runs(AssignmentId(number))) <= 1


class GoneConformance:
    async def test_a_deleted_container_is_gone(self, harness: Harness) -> None:
        backend = await harness.control_plane()
        container_id = await running(harness, backend, FIRST)
        for _ in range(2):
            await backend.delete(container_id, timeout_s=TIMEOUT_S)
            await seen_gone(harness, backend, container_id)
        assert not await backend.list_owned(timeout_s=TIMEOUT_S)
        with pytest.raises(ContainerGone):
            await backend.start(order(harness, container_id, SECOND), timeout_s=TIMEOUT_S)
        with pytest.raises(ContainerGone):
            await stop(backend, container_id, FIRST)
        with pytest.raises(ContainerGone):
            await backend.describe(container_id, "[IDLE]", timeout_s=TIMEOUT_S)

    async def test_a_container_is_made_again_after_deletion(self, harness: Harness) -> None:
        backend = await harness.control_plane()
        container_id = await ensure(backend)
        await backend.delete(container_id, timeout_s=TIMEOUT_S)
        await running(harness, backend, FIRST)

    @pytest.mark.parametrize("unknown", ["pool-teams-001.abcdef", "..", "../..", "a/b", "", "\0"])
    async def test_what_was_never_made_is_gone(self, harness: Harness, unknown: str) -> None:
        backend = await harness.control_plane()
        container_id = await ensure(backend)
        both = await backend.observe([container_id, ContainerId(unknown)], timeout_s=TIMEOUT_S)
        assert both[ContainerId(unknown)].state is ContainerState.GONE
        assert both[container_id].state in DOWN - {ContainerState.GONE}
        with pytest.raises(ContainerGone):
            await stop(backend, ContainerId(unknown), FIRST)

    async def test_an_outage_is_no_evidence_of_anything(self, harness: Harness) -> None:
        backend = await harness.control_plane()
        container_id = await running(harness, backend, FIRST)
        with harness.outage():
            for call in (
                backend.observe([container_id], timeout_s=TIMEOUT_S),
                backend.list_owned(timeout_s=TIMEOUT_S),
                backend.ensure(SPEC, timeout_s=TIMEOUT_S),
                backend.start(order(harness, container_id, SECOND), timeout_s=TIMEOUT_S),
                backend.stop(container_id, FIRST, timeout_s=TIMEOUT_S),
                backend.delete(container_id, timeout_s=TIMEOUT_S),
                backend.check(timeout_s=TIMEOUT_S),
            ):
                with pytest.raises(BackendUnavailable):
                    await call
        assert (await look(backend, container_id)).state is ContainerState.RUNNING
        assert (await backend.check(timeout_s=TIMEOUT_S)).ok


class SightConformance:
    async def test_output_is_kept_and_its_end_can_be_asked_for(self, harness: Harness) -> None:
        backend = await harness.control_plane()
        container_id = await running(harness, backend, FIRST, "print 100")
        if harness.traits.keeps_output:
            await stop(backend, container_id, FIRST)
            await seen_down(backend, container_id)
        whole = b"".join(b"line %d\n" % number for number in range(1, 101))
        assert await output(backend, container_id, FIRST) == whole
        assert await output(backend, container_id, FIRST, tail=2) == b"line 99\nline 100\n"
        assert await output(backend, container_id, FIRST, tail=0) == b""
        assert await output(backend, container_id, SECOND) == b""
        if not harness.traits.keeps_output:
            await stop(backend, container_id, FIRST)
            await seen_down(backend, container_id)
            assert await output(backend, container_id, FIRST) == b""

    async def test_output_is_followed_until_the_run_ends(self, harness: Harness) -> None:
        backend = await harness.control_plane()
        container_id = await running(harness, backend, FIRST, "print 3")
        following = asyncio.create_task(output(backend, container_id, FIRST, follow=True))
        await asyncio.sleep(0.05)
        assert not following.done()
        await stop(backend, container_id, FIRST)
        async with asyncio.timeout(TIMEOUT_S):
            assert await following == b"line 1\nline 2\nline 3\n"

    async def test_a_description_can_be_written(self, harness: Harness) -> None:
        backend = await harness.control_plane()
        container_id = await ensure(backend)
        await backend.describe(container_id, "[BUSY] Bot #7", timeout_s=TIMEOUT_S)

    async def test_a_good_set_up_is_healthy(self, harness: Harness) -> None:
        backend = await harness.control_plane()
        assert (await backend.check(timeout_s=TIMEOUT_S)).ok


class BackendConformance(
    EnsureConformance, StartConformance, StopConformance, GoneConformance, SightConformance
):
    """All of it."""
