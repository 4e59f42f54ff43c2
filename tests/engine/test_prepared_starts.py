"""Starts of a backend that prepares them: the engine records what was prepared, then starts it.

A replica may die before, during or after each of the two calls, or be paused and continue late.
"""

import asyncio

import pytest

from botpool.backends.protocol import ContainerSpec, ReadKnownRuns, StartRequest
from botpool.domain.errors import BackendUnavailable
from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId
from botpool.domain.observation import DeploymentState
from tests.support.replicas import Stage, bot_request, pool
from tests.support.scripted_backend import ScriptedBackend
from tests.support.standbys import hot_pool, keep, ready_standby


class PreparingBackend(ScriptedBackend):
    """Prepares a start, and keeps an ended run until the engine discards it."""

    def __init__(self) -> None:
        super().__init__()
        self.prepared: list[DeploymentId] = []
        self.started: list[DeploymentId | None] = []
        self.kept: set[DeploymentId] = set()

    async def prepare(
        self, spec: ContainerSpec, request: StartRequest, *, timeout_s: float
    ) -> DeploymentId:
        await self._called("prepare", request.assignment_id)
        deployment_id = DeploymentId(f"{spec.name}-{request.assignment_id}")
        self.prepared.append(deployment_id)
        self.kept.add(deployment_id)
        await self._pass_gate("answer of prepare")
        return deployment_id

    async def start(self, request: StartRequest, *, timeout_s: float) -> DeploymentId | None:
        await super().start(request, timeout_s=timeout_s)
        self.started.append(request.deployment_id)
        return request.deployment_id

    async def deployment(
        self, container_id: ContainerId, deployment_id: DeploymentId, *, timeout_s: float
    ) -> DeploymentState | None:
        return DeploymentState.FINISHED

    def discard(
        self, container_id: ContainerId, assignment_id: AssignmentId, deployment_id: DeploymentId
    ) -> None:
        self.calls.append(("discard", deployment_id))
        self.kept.discard(deployment_id)

    async def discard_unknown(
        self, read_known: ReadKnownRuns, *, min_age_s: float, timeout_s: float
    ) -> int:
        unknown = set(self.kept) - set(await read_known())
        self.kept -= unknown
        return len(unknown)


@pytest.fixture
def backend(stage: Stage) -> PreparingBackend:
    stage.backend = PreparingBackend()
    return stage.backend


async def test_start_gets_what_was_recorded(stage: Stage, backend: PreparingBackend) -> None:
    replica = await stage.replica(pool(1))
    bot = await stage.run_bot(replica)
    assert stage.statuses(bot.bot.id) == ["JOINING_CALL"]
    recorded = stage.slots()[0]["deployment_id"]
    assert [recorded] == backend.prepared == backend.started


async def test_crash_after_the_preparation_repeats_it_and_starts_once(
    stage: Stage, backend: PreparingBackend
) -> None:
    dying, successor = [await stage.replica(pool(1)) for _ in range(2)]
    await dying.admission.admit(bot_request())
    prepared, _ = backend.hold_answer("prepare")
    step = asyncio.create_task(stage.step(dying))
    await prepared.wait()
    step.cancel()
    stage.clock.move(21)
    await stage.settle(successor)
    assert backend.prepared == [backend.started[0]] * 2
    assert len(backend.runs) == 1


async def test_crash_after_the_record_starts_what_was_recorded(
    stage: Stage, backend: PreparingBackend
) -> None:
    replica = await stage.replica(pool(1))
    await replica.admission.admit(bot_request())
    backend.fail("start", BackendUnavailable("the replica is killed"))
    await stage.step(replica)
    assert stage.slots()[0]["deployment_id"] == backend.prepared[0]
    stage.clock.move(60)
    await stage.settle(replica)
    assert backend.started == backend.prepared
    assert len(backend.prepared) == 1


async def test_late_record_of_a_paused_replica_starts_nothing(
    stage: Stage, backend: PreparingBackend
) -> None:
    """The paused replica prepared the start; meanwhile the bot was cancelled and the slot freed."""
    paused, other = [await stage.replica(pool(1)) for _ in range(2)]
    bot = (await paused.admission.admit(bot_request())).bot
    prepared, go_on = backend.hold_answer("prepare")
    step = asyncio.create_task(stage.step(paused))
    await prepared.wait()
    stage.clock.move(21)
    await other.bot_stopper.stop(bot.id)
    await stage.settle(other)
    assert stage.slots()[0]["status"] == "idle"
    go_on.set()
    await step
    assert backend.started == []
    assert stage.slots()[0]["deployment_id"] is None
    # What it prepared belongs to no slot: the cleanup removes it.
    assert backend.kept == set(backend.prepared)
    await other.cleanup.run()
    assert backend.kept == set()


async def test_ended_run_is_discarded_after_its_release_is_recorded(
    stage: Stage, backend: PreparingBackend
) -> None:
    replica = await stage.replica(pool(1))
    bot = await stage.run_bot(replica)
    run = backend.prepared[0]
    await replica.cleanup.run()
    assert backend.kept == {run}, "a run that a slot knows is kept"
    await stage.end(replica, bot.bot.id)
    await stage.settle(replica)
    assert stage.slots()[0]["deployment_id"] is None
    assert backend.calls_of("discard") == [run]


async def test_run_that_does_not_stop_is_stopped_again_and_never_deleted(
    stage: Stage, backend: PreparingBackend
) -> None:
    replica = await stage.replica(pool(1))
    bot = await stage.run_bot(replica)
    backend.stops_work = False
    await stage.end(replica, bot.bot.id)
    for _ in range(12):
        await stage.step(replica)
        stage.clock.move(60)
    assert stage.slots()[0]["status"] == "releasing"
    assert len(backend.calls_of("stop")) > 3
    assert not backend.calls_of("delete")
    assert not backend.calls_of("discard")


async def test_standby_starts_with_what_was_recorded(
    stage: Stage, backend: PreparingBackend
) -> None:
    replica = await stage.replica(hot_pool(1))
    await keep(stage, replica)
    (slot,) = stage.slots()
    assert [slot["deployment_id"]] == backend.prepared == backend.started
    assert slot["start_issued_at"] is not None


@pytest.mark.parametrize("observed", [False, True], ids=["step", "observation"])
async def test_ended_standby_is_discarded(
    stage: Stage, backend: PreparingBackend, *, observed: bool
) -> None:
    replica = await stage.replica(hot_pool(1))
    await ready_standby(stage, replica)
    (run,) = backend.prepared
    if observed:
        backend.stops_work = False
    await replica.standby_keeper.stop_all()
    await stage.settle(replica)
    if observed:
        assert not backend.calls_of("discard"), "the container runs"
        backend.exit(stage.slots()[0]["container_id"], 143)
        await replica.observer.observe(backend.name)
    assert backend.calls_of("discard") == [run]
