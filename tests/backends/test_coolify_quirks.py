"""Coolify's quirks and failures, as the emulator has them: nothing lost, doubled or touched."""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from botpool.backends.coolify import CoolifyBackend
from botpool.backends.protocol import StartRequest
from botpool.domain.errors import (
    BackendRefused,
    BackendUnavailable,
    BudgetExhausted,
    StartSuperseded,
)
from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId
from botpool.domain.observation import (
    ACTIVE_DEPLOYMENT,
    ContainerState,
    DeploymentState,
    Observation,
)
from botpool.emulators.coolify import (
    EmulatedCoolify,
    EmulatedTransport,
    EmulatorServer,
    ManualClock,
)
from tests.backends.coolify_harness import NATURE, CoolifyHarness, CountingBudget, config
from tests.backends.harness import SPEC, eventually, order, running, seen, seen_down

TIMEOUT_S = 5.0


class Shuffled(EmulatedTransport):
    """Every request may come between any two of another task, and takes some time."""

    def __init__(self, world: EmulatedCoolify, clock: ManualClock, seed: int) -> None:
        super().__init__(world, clock)
        self._clock = clock
        self.chance = random.Random(seed)
        self.longest_s = 0.0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await self.wait_a_little()
        self._clock.advance(self.chance.random() * self.longest_s)
        return await super().handle_async_request(request)

    async def wait_a_little(self, turns: int = 6) -> None:
        for _ in range(self.chance.randrange(turns)):
            await asyncio.sleep(0)


class Scene:
    """An emulated Coolify whose time is moved by hand, and replicas that talk to it."""

    def __init__(self, seed: int = 0) -> None:
        self.clock = ManualClock()
        self.world = EmulatedCoolify(seed=seed)
        self.transport = Shuffled(self.world, self.clock, seed)
        self.budget = CountingBudget()
        self.backend = self.replica()

    def replica(self, installation: str = "one") -> CoolifyBackend:
        return CoolifyBackend(config(installation), self.budget, transport=self.transport)

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.world.advance(self.clock.now())

    async def ensure(self) -> ContainerId:
        return await self.backend.ensure(SPEC, timeout_s=TIMEOUT_S)

    async def start(
        self, container_id: ContainerId, number: int, *, by: CoolifyBackend | None = None
    ) -> DeploymentId | None:
        wanted = StartRequest(
            container_id=container_id,
            assignment_id=AssignmentId(number),
            correlation_id="",
            environment={"NUMBER": str(number)},
        )
        return await (by or self.backend).start(wanted, timeout_s=TIMEOUT_S)

    async def stop(self, container_id: ContainerId, number: int) -> None:
        await self.backend.stop(container_id, AssignmentId(number), timeout_s=TIMEOUT_S)

    async def observe(self, container_id: ContainerId) -> Observation:
        return (await self.backend.observe([container_id], timeout_s=TIMEOUT_S))[container_id]

    def deployments(self, container_id: ContainerId) -> int:
        return len(self.world.applications[container_id].deployments)


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[CoolifyHarness]:
    harness = CoolifyHarness(tmp_path)
    yield harness
    await harness.clear()


class TestMaking:
    @pytest.mark.parametrize("seed", range(5))
    async def test_replicas_that_make_at_once_leave_nothing_over(self, seed: int) -> None:
        scene = Scene(seed)
        replicas = [scene.replica() for _ in range(8)]
        made = await asyncio.gather(*(each.ensure(SPEC, timeout_s=TIMEOUT_S) for each in replicas))
        scene.pass_time(60)
        assert set(made) == set(scene.world.applications)

    async def test_one_whose_answer_was_lost_is_found(self, scene: Scene) -> None:
        scene.world.set_faults(
            {"halfAnswer": {"endpoint": "POST /applications/dockerimage", "times": 1}}
        )
        with pytest.raises(BackendUnavailable):
            await scene.ensure()
        assert [await scene.ensure()] == list(scene.world.applications)

    async def test_what_is_being_deleted_is_not_taken_again(self, scene: Scene) -> None:
        former = await scene.ensure()
        await scene.backend.delete(former, timeout_s=TIMEOUT_S)
        assert former in scene.world.applications
        scene.backend = scene.replica()
        assert await scene.ensure() != former

    async def test_a_changed_image_and_limit_is_taken_over(self, scene: Scene) -> None:
        container_id = await scene.ensure()
        changed = replace(SPEC, image="host:5000/bot:2", cpus=0.5, memory_mb=512)
        assert await scene.backend.ensure(changed, timeout_s=TIMEOUT_S) == container_id
        application = scene.world.applications[container_id]
        assert application.image_and_tag == "host:5000/bot:2"
        assert application.settings["limits_cpus"] == "0.5"
        assert application.settings["limits_memory"] == "512m"

    async def test_what_runs_is_handed_out_when_it_is_seen_stopped(self, scene: Scene) -> None:
        container_id = await scene.ensure()
        await scene.start(container_id, 1)
        with pytest.raises(BackendUnavailable, match="being stopped"):
            await scene.ensure()
        assert not scene.world.deployments.open
        scene.pass_time(90)
        assert await scene.ensure() == container_id
        assert not scene.world.containers.running

    async def test_nothing_is_handed_out_while_the_server_is_away(self, scene: Scene) -> None:
        container_id = await scene.ensure()
        scene.world.set_faults({"serverUnreachable": {}})
        with pytest.raises(BackendUnavailable, match="not known"):
            await scene.ensure()
        assert (await scene.observe(container_id)).state is ContainerState.UNKNOWN

    async def test_applications_of_others_are_never_touched(self, scene: Scene) -> None:
        theirs = scene.world.create_application(name=SPEC.name, image="a", tag="b")
        scene.world.run_without_deployment(theirs)
        other = ContainerId(theirs.uuid)
        assert await scene.ensure() != other
        for call in (
            scene.stop(other, 1),
            scene.start(other, 1),
            scene.backend.delete(other, timeout_s=TIMEOUT_S),
        ):
            with pytest.raises(BackendUnavailable):
                await call
        scene.pass_time(300)
        assert theirs.running
        assert not theirs.variables
        assert other in scene.world.applications


class TestStarting:
    async def test_a_first_start_is_under_way_until_it_runs(self, scene: Scene) -> None:
        container_id = await scene.ensure()
        deployment_id = await scene.start(container_id, 1)
        for _ in range(6):
            scene.pass_time(60)
            seen_now = await scene.observe(container_id)
            assert seen_now.state is ContainerState.STARTING
            assert seen_now.deployment in ACTIVE_DEPLOYMENT
            assert seen_now.deployment_id == deployment_id
        scene.pass_time(180)
        assert (await scene.observe(container_id)).state is ContainerState.RUNNING
        assert deployment_id is not None
        ended = await scene.backend.deployment(container_id, deployment_id, timeout_s=TIMEOUT_S)
        assert ended is DeploymentState.FINISHED

    @pytest.mark.parametrize("fault", ["phantomUuid", "startWithoutUuid"])
    async def test_a_start_that_made_nothing_is_made_again(self, scene: Scene, fault: str) -> None:
        container_id = await scene.ensure()
        scene.world.set_faults({fault: {"times": 1}})
        with pytest.raises(BudgetExhausted):
            await scene.start(container_id, 1)
        assert not scene.deployments(container_id)
        assert await scene.start(container_id, 1)
        assert scene.deployments(container_id) == 1

    @pytest.mark.parametrize("fault", ["resetConnection", "badGateway", "serverError"])
    @pytest.mark.parametrize("later_s", [0, 600])
    async def test_a_start_whose_answer_was_lost_is_not_repeated(
        self, scene: Scene, fault: str, later_s: float
    ) -> None:
        container_id = await scene.ensure()
        endpoint = "POST /applications/{uuid}/start"
        scene.world.set_faults({fault: {"endpoint": endpoint, "worked": True, "times": 1}})
        with pytest.raises(BackendUnavailable):
            await scene.start(container_id, 1)
        scene.pass_time(later_s)
        scene.backend = scene.replica()
        assert await scene.start(container_id, 1)
        assert scene.deployments(container_id) == 1

    @pytest.mark.parametrize("seed", range(20))
    async def test_replicas_that_start_at_once_make_one_deployment(self, seed: int) -> None:
        scene = Scene(seed)
        container_id = await scene.ensure()
        for number in (1, 2):
            await scene.start(container_id, number)
            scene.pass_time(600)
            await scene.stop(container_id, number)
            scene.pass_time(120)
        scene.transport.longest_s = 2
        replicas = [scene.replica() for _ in range(3)]
        started = await asyncio.gather(
            *(scene.start(container_id, 3, by=replica) for replica in replicas)
        )
        assert len(set(started)) == 1
        assert scene.deployments(container_id) == 3

    async def test_a_full_queue_is_waited_for(self, scene: Scene) -> None:
        for number in range(NATURE.concurrent_builds + NATURE.queue_limit):
            application = scene.world.create_application(name=f"a{number}", image="a", tag="b")
            scene.world.deployments.queue(application)
        scene.pass_time(10)
        for number in range(5):
            application = scene.world.create_application(name=f"b{number}", image="a", tag="b")
            scene.world.deployments.queue(application)
        container_id = await scene.ensure()
        with pytest.raises(BudgetExhausted):
            await scene.start(container_id, 1)
        assert not scene.deployments(container_id)

    @pytest.mark.parametrize("faults", [{}, {"versionBefore42": {}}, {"deploymentsAsObject": {}}])
    async def test_old_and_new_versions_are_understood(
        self, scene: Scene, faults: dict[str, object]
    ) -> None:
        scene.world.set_faults(faults)
        container_id = await scene.ensure()
        assert await scene.start(container_id, 1)
        assert (await scene.observe(container_id)).state is ContainerState.STARTING
        await scene.stop(container_id, 1)
        assert not scene.world.deployments.open

    async def test_bot_data_arrives_as_it_was_sent(self, harness: CoolifyHarness) -> None:
        data = json.dumps({"name": 'it\'s $HOME, ${X} and \\ "é" <b>'})
        await running(harness, await harness.control_plane(), 1, BOT_DATA=data)
        (witness,) = harness.runs(AssignmentId(1))
        assert json.loads(witness.environment["BOT_DATA"]) == json.loads(data)
        assert witness.environment["BOTPOOL_ASSIGNMENT"] == "1"


class TestStopping:
    @pytest.mark.parametrize("fault", ["cancelAnswers500", "cancelLeavesRunning"])
    async def test_a_cancel_that_misbehaves_ends_stopped(self, scene: Scene, fault: str) -> None:
        container_id = await scene.ensure()
        await scene.start(container_id, 1)
        scene.pass_time(430)
        scene.world.set_faults({fault: {"times": 1}})
        for _ in range(4):
            await scene.stop(container_id, 1)
            scene.pass_time(40)
        assert not scene.world.containers.running
        scene.pass_time(60)
        assert (await scene.observe(container_id)).state is ContainerState.EXITED

    async def test_images_stay_on_the_disk(self, scene: Scene) -> None:
        container_id = await scene.ensure()
        await scene.start(container_id, 1)
        scene.pass_time(600)
        await scene.stop(container_id, 1)
        scene.pass_time(120)
        await scene.backend.delete(container_id, timeout_s=TIMEOUT_S)
        scene.pass_time(120)
        assert (await scene.observe(container_id)).state is ContainerState.GONE
        assert scene.world.deployments.images == {SPEC.image}

    @pytest.mark.parametrize("seed", range(20))
    async def test_start_and_stop_in_any_order_leave_nothing_running(self, seed: int) -> None:
        scene = Scene(seed)
        container_id = await scene.ensure()
        replica = scene.replica()
        scene.transport.longest_s = 20

        async def start() -> None:
            with suppress(StartSuperseded):
                await scene.start(container_id, 1, by=replica)

        async def stop() -> None:
            await scene.transport.wait_a_little(20)
            await scene.stop(container_id, 1)

        await asyncio.gather(start(), stop())
        scene.pass_time(1200)
        assert not scene.world.containers.running
        with pytest.raises(StartSuperseded):
            await scene.start(container_id, 1)
        assert scene.deployments(container_id) <= 1


class TestHealth:
    @pytest.mark.parametrize(
        ("fault", "setting"),
        [
            ({"tokenExpired": {}}, "backends.coolify.token"),
            ({"missingAbility": {"ability": "read"}}, "backends.coolify.token"),
            ({"apiDisabled": {}}, "backends.coolify.url"),
            ({"addressNotAllowed": {}}, "backends.coolify.url"),
        ],
    )
    async def test_a_wrong_set_up_is_named(
        self, scene: Scene, fault: dict[str, object], setting: str
    ) -> None:
        scene.world.set_faults(fault)
        health = await scene.backend.check(timeout_s=TIMEOUT_S)
        assert not health.ok
        assert setting in health.detail

    async def test_a_missing_ability_to_deploy_is_told_after_the_first_try(
        self, scene: Scene
    ) -> None:
        container_id = await scene.ensure()
        scene.world.set_faults({"missingAbility": {"ability": "deploy"}})
        assert (await scene.backend.check(timeout_s=TIMEOUT_S)).ok
        with pytest.raises(BackendRefused, match="deploy"):
            await scene.start(container_id, 1)
        assert not (await scene.backend.check(timeout_s=TIMEOUT_S)).ok

    async def test_the_limit_of_requests_is_obeyed(self, scene: Scene) -> None:
        with pytest.raises(BudgetExhausted) as caught:
            for _ in range(300):
                await scene.backend.list_owned(timeout_s=TIMEOUT_S)
        assert 0 < caught.value.retry_after_s <= 60
        assert scene.budget.paused_s == [caught.value.retry_after_s]

    async def test_a_token_that_sees_no_values_can_still_stop(self, scene: Scene) -> None:
        container_id = await scene.ensure()
        await scene.start(container_id, 1)
        scene.pass_time(1000)
        scene.world.set_faults({"hideSensitive": True})
        await scene.stop(container_id, 1)
        scene.pass_time(100)
        assert (await scene.observe(container_id)).state is ContainerState.EXITED
        with pytest.raises(BackendRefused, match="read:sensitive"):
            await scene.start(container_id, 2)

    async def test_a_server_that_cannot_be_reached_is_told(self, scene: Scene) -> None:
        assert (await scene.backend.check(timeout_s=TIMEOUT_S)).ok
        scene.world.set_faults({"serverUnreachable": True})
        health = await scene.backend.check(timeout_s=TIMEOUT_S)
        assert not health.ok
        assert "server" in health.detail

    async def test_descriptions_are_read_as_they_were_written(self, scene: Scene) -> None:
        container_id = await scene.ensure()
        for text in (
            "[BUSY] Bot #7 - 2025-12-16T21:30:00Z",
            " <b>x</b> ",
            "y" * 300,
            "z" * 254 + "  !",
        ):
            await scene.backend.describe(container_id, text, timeout_s=TIMEOUT_S)
            first = scene.world.applications[container_id].description
            assert first
            await scene.backend.describe(container_id, first, timeout_s=TIMEOUT_S)
            assert scene.world.applications[container_id].description == first


async def test_the_whole_way_over_a_real_socket(harness: CoolifyHarness) -> None:
    async with EmulatorServer(harness.world, harness.clock) as server:
        backend = CoolifyBackend(config(url=server.url), harness.budget)
        container_id = await backend.ensure(SPEC, timeout_s=TIMEOUT_S)
        for wire in ("resetConnection", "halfAnswer"):
            harness.world.set_faults({wire: {"times": 2, "endpoint": "GET /applications"}})
            with pytest.raises(BackendUnavailable):
                await backend.list_owned(timeout_s=TIMEOUT_S)
            harness.world.set_faults({wire: None})
        await backend.start(order(harness, container_id, 1), timeout_s=TIMEOUT_S)
        await eventually(lambda: harness.runs(AssignmentId(1)))
        await seen(backend, container_id, ContainerState.RUNNING)
        await backend.stop(container_id, AssignmentId(1), timeout_s=TIMEOUT_S)
        await seen_down(backend, container_id)
        await backend.close()
