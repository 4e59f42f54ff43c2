"""The Coolify backend against the emulator with Coolify's quirks and failures."""

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
    EmulatedClock,
    EmulatedCoolify,
    EmulatorServer,
)
from tests.backends.coolify_harness import CONFIG, CoolifyHarness, CountingBudget, config
from tests.backends.harness import (
    SPEC,
    eventually,
    start_and_wait,
    start_request,
    wait_for_state,
    wait_until_down,
)
from tests.support.emulated_transport import EmulatedTransport
from tests.support.fences import ANY_ASSIGNMENT, NO_ASSIGNMENT

TIMEOUT_S = 5.0


class RandomDelayTransport(EmulatedTransport):
    """Interleaves the requests of concurrent tasks and takes some emulated time."""

    def __init__(self, coolify: EmulatedCoolify, clock: EmulatedClock, seed: int) -> None:
        super().__init__(coolify, clock)
        self._clock = clock
        self.randomness = random.Random(seed)
        self.max_delay_s = 0.0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await self.yield_randomly()
        self._clock.advance(self.randomness.random() * self.max_delay_s)
        return await super().handle_async_request(request)

    async def yield_randomly(self, turns: int = 6) -> None:
        for _ in range(self.randomness.randrange(turns)):
            await asyncio.sleep(0)


class CoolifySetup:
    """An emulated Coolify with a manual clock, and backends that call it."""

    def __init__(self, seed: int = 0) -> None:
        self.clock = EmulatedClock(manual=True)
        self.coolify = EmulatedCoolify(seed=seed)
        self.transport = RandomDelayTransport(self.coolify, self.clock, seed)
        self.budget = CountingBudget()
        self.backend = self.replica()

    def replica(self, installation: str = "one") -> CoolifyBackend:
        return CoolifyBackend(config(installation), self.budget, transport=self.transport)

    def advance(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.coolify.advance(self.clock.now())

    async def ensure(self, stop_through: AssignmentId = NO_ASSIGNMENT) -> ContainerId:
        return await self.backend.ensure(SPEC, stop_through=stop_through, timeout_s=TIMEOUT_S)

    async def start(
        self, container_id: ContainerId, number: int, *, by: CoolifyBackend | None = None
    ) -> DeploymentId | None:
        request = StartRequest(
            container_id=container_id,
            assignment_id=AssignmentId(number),
            correlation_id="",
            environment={"NUMBER": str(number)},
        )
        return await (by or self.backend).start(request, timeout_s=TIMEOUT_S)

    async def stop(self, container_id: ContainerId, number: int) -> None:
        await self.backend.stop(container_id, AssignmentId(number), timeout_s=TIMEOUT_S)

    async def observe(self, container_id: ContainerId) -> Observation:
        return (await self.backend.observe([container_id], timeout_s=TIMEOUT_S))[container_id]

    def deployments(self, container_id: ContainerId) -> int:
        return len(self.coolify.applications[container_id].deployments)


@pytest.fixture
def setup() -> CoolifySetup:
    return CoolifySetup()


@pytest.fixture
async def harness(tmp_path: Path) -> AsyncIterator[CoolifyHarness]:
    harness = CoolifyHarness(tmp_path)
    yield harness
    await harness.clear()


class TestEnsure:
    @pytest.mark.parametrize("seed", range(5))
    async def test_concurrent_ensure_leaves_one_application(self, seed: int) -> None:
        setup = CoolifySetup(seed)
        replicas = [setup.replica() for _ in range(8)]
        created = await asyncio.gather(
            *(
                each.ensure(SPEC, stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S)
                for each in replicas
            )
        )
        setup.advance(60)
        assert set(created) == set(setup.coolify.applications)

    async def test_application_is_found_when_create_response_was_lost(
        self, setup: CoolifySetup
    ) -> None:
        setup.coolify.set_faults(
            {"halfAnswer": {"endpoint": "POST /applications/dockerimage", "times": 1}}
        )
        with pytest.raises(BackendUnavailable):
            await setup.ensure()
        assert [await setup.ensure()] == list(setup.coolify.applications)

    async def test_application_being_deleted_is_not_reused(self, setup: CoolifySetup) -> None:
        previous = await setup.ensure()
        await setup.backend.delete(previous, stop_through=ANY_ASSIGNMENT, timeout_s=TIMEOUT_S)
        assert previous in setup.coolify.applications
        setup.backend = setup.replica()
        assert await setup.ensure() != previous

    async def test_ensure_updates_image_and_limits(self, setup: CoolifySetup) -> None:
        container_id = await setup.ensure()
        changed = replace(SPEC, image="host:5000/bot:2", cpus=0.5, memory_mb=512)
        assert (
            await setup.backend.ensure(changed, stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S)
            == container_id
        )
        application = setup.coolify.applications[container_id]
        assert application.image_and_tag == "host:5000/bot:2"
        assert application.settings["limits_cpus"] == "0.5"
        assert application.settings["limits_memory"] == "512m"

    async def test_ensure_returns_running_application_after_its_stop(
        self, setup: CoolifySetup
    ) -> None:
        container_id = await setup.ensure()
        await setup.start(container_id, 1)
        with pytest.raises(BackendUnavailable, match="being stopped"):
            await setup.ensure(stop_through=AssignmentId(1))
        assert not setup.coolify.deployments.open
        setup.advance(90)
        assert await setup.ensure() == container_id
        assert not setup.coolify.containers.running

    async def test_ensure_is_unavailable_while_server_is_unreachable(
        self, setup: CoolifySetup
    ) -> None:
        container_id = await setup.ensure()
        setup.coolify.set_faults({"serverUnreachable": {}})
        with pytest.raises(BackendUnavailable, match="cannot determine"):
            await setup.ensure()
        assert (await setup.observe(container_id)).state is ContainerState.UNKNOWN

    async def test_foreign_applications_are_never_touched(self, setup: CoolifySetup) -> None:
        theirs = setup.coolify.create_application(name=SPEC.name, image="a", tag="b")
        setup.coolify.run_without_deployment(theirs)
        other = ContainerId(theirs.uuid)
        assert await setup.ensure() != other
        for call in (
            setup.stop(other, 1),
            setup.start(other, 1),
            setup.backend.delete(other, stop_through=ANY_ASSIGNMENT, timeout_s=TIMEOUT_S),
        ):
            with pytest.raises(BackendUnavailable):
                await call
        setup.advance(300)
        assert theirs.running
        assert not theirs.variables
        assert other in setup.coolify.applications


class TestStart:
    async def test_first_start_is_observed_as_starting_until_it_runs(
        self, setup: CoolifySetup
    ) -> None:
        container_id = await setup.ensure()
        deployment_id = await setup.start(container_id, 1)
        for _ in range(6):
            setup.advance(60)
            observed = await setup.observe(container_id)
            assert observed.state is ContainerState.STARTING
            assert observed.deployment in ACTIVE_DEPLOYMENT
            assert observed.deployment_id == deployment_id
        setup.advance(180)
        assert (await setup.observe(container_id)).state is ContainerState.RUNNING
        assert deployment_id is not None
        ended = await setup.backend.deployment(container_id, deployment_id, timeout_s=TIMEOUT_S)
        assert ended is DeploymentState.FINISHED

    @pytest.mark.parametrize("fault", ["phantomUuid", "startWithoutUuid"])
    async def test_start_without_deployment_is_repeated(
        self, setup: CoolifySetup, fault: str
    ) -> None:
        container_id = await setup.ensure()
        setup.coolify.set_faults({fault: {"times": 1}})
        with pytest.raises(BudgetExhausted):
            await setup.start(container_id, 1)
        assert not setup.deployments(container_id)
        assert await setup.start(container_id, 1)
        assert setup.deployments(container_id) == 1

    @pytest.mark.parametrize("fault", ["resetConnection", "badGateway", "serverError"])
    @pytest.mark.parametrize("later_s", [0, 600])
    async def test_start_with_lost_response_is_not_repeated(
        self, setup: CoolifySetup, fault: str, later_s: float
    ) -> None:
        container_id = await setup.ensure()
        endpoint = "POST /applications/{uuid}/start"
        setup.coolify.set_faults({fault: {"endpoint": endpoint, "worked": True, "times": 1}})
        with pytest.raises(BackendUnavailable):
            await setup.start(container_id, 1)
        setup.advance(later_s)
        setup.backend = setup.replica()
        assert await setup.start(container_id, 1)
        assert setup.deployments(container_id) == 1

    @pytest.mark.parametrize("seed", range(20))
    async def test_concurrent_starts_create_one_deployment(self, seed: int) -> None:
        setup = CoolifySetup(seed)
        container_id = await setup.ensure()
        for number in (1, 2):
            await setup.start(container_id, number)
            setup.advance(600)
            await setup.stop(container_id, number)
            setup.advance(120)
        setup.transport.max_delay_s = 2
        replicas = [setup.replica() for _ in range(3)]
        started = await asyncio.gather(
            *(setup.start(container_id, 3, by=replica) for replica in replicas)
        )
        assert len(set(started)) == 1
        assert setup.deployments(container_id) == 3

    async def test_full_deployment_queue_exhausts_the_budget(self, setup: CoolifySetup) -> None:
        for number in range(CONFIG.concurrent_builds + CONFIG.queue_limit):
            application = setup.coolify.create_application(name=f"a{number}", image="a", tag="b")
            setup.coolify.deployments.queue(application)
        setup.advance(10)
        for number in range(5):
            application = setup.coolify.create_application(name=f"b{number}", image="a", tag="b")
            setup.coolify.deployments.queue(application)
        container_id = await setup.ensure()
        with pytest.raises(BudgetExhausted):
            await setup.start(container_id, 1)
        assert not setup.deployments(container_id)

    @pytest.mark.parametrize("faults", [{}, {"deploymentsAsObject": {}}])
    async def test_open_deployments_may_be_list_or_object(
        self, setup: CoolifySetup, faults: dict[str, object]
    ) -> None:
        setup.coolify.set_faults(faults)
        container_id = await setup.ensure()
        assert await setup.start(container_id, 1)
        assert (await setup.observe(container_id)).state is ContainerState.STARTING
        await setup.stop(container_id, 1)
        assert not setup.coolify.deployments.open

    async def test_bot_data_arrives_unchanged(self, harness: CoolifyHarness) -> None:
        data = json.dumps({"name": 'it\'s $HOME, ${X} and \\ "é" <b>'})
        await start_and_wait(harness, await harness.open_backend(), 1, BOT_DATA=data)
        (run,) = harness.runs(AssignmentId(1))
        assert json.loads(run.environment["BOT_DATA"]) == json.loads(data)
        assert run.environment["BOTPOOL_ASSIGNMENT"] == "1"


class TestStop:
    @pytest.mark.parametrize("fault", ["cancelAnswers500", "cancelLeavesRunning"])
    async def test_repeated_stop_ends_container_after_faulty_cancel(
        self, setup: CoolifySetup, fault: str
    ) -> None:
        container_id = await setup.ensure()
        await setup.start(container_id, 1)
        setup.advance(430)
        setup.coolify.set_faults({fault: {"times": 1}})
        for _ in range(4):
            await setup.stop(container_id, 1)
            setup.advance(40)
        assert not setup.coolify.containers.running
        setup.advance(60)
        assert (await setup.observe(container_id)).state is ContainerState.EXITED

    async def test_images_stay_on_the_disk(self, setup: CoolifySetup) -> None:
        container_id = await setup.ensure()
        await setup.start(container_id, 1)
        setup.advance(600)
        await setup.stop(container_id, 1)
        setup.advance(120)
        await setup.backend.delete(container_id, stop_through=ANY_ASSIGNMENT, timeout_s=TIMEOUT_S)
        setup.advance(120)
        assert (await setup.observe(container_id)).state is ContainerState.GONE
        assert setup.coolify.deployments.images == {SPEC.image}

    @pytest.mark.parametrize("seed", range(20))
    async def test_concurrent_start_and_stop_leave_nothing_running(self, seed: int) -> None:
        setup = CoolifySetup(seed)
        container_id = await setup.ensure()
        replica = setup.replica()
        setup.transport.max_delay_s = 20

        async def start() -> None:
            with suppress(StartSuperseded):
                await setup.start(container_id, 1, by=replica)

        async def stop() -> None:
            await setup.transport.yield_randomly(20)
            await setup.stop(container_id, 1)

        await asyncio.gather(start(), stop())
        setup.advance(1200)
        assert not setup.coolify.containers.running
        with pytest.raises(StartSuperseded):
            await setup.start(container_id, 1)
        assert setup.deployments(container_id) <= 1


class TestHealth:
    @pytest.mark.parametrize(
        ("fault", "setting"),
        [
            ({"tokenExpired": {}}, "backends.coolify.token"),
            ({"missingAbility": {"ability": "read"}}, "backends.coolify.token"),
            ({"apiDisabled": {}}, "backends.coolify.url"),
            ({"addressNotAllowed": {}}, "Allow this machine's address"),
        ],
    )
    async def test_check_names_the_wrong_setting(
        self, setup: CoolifySetup, fault: dict[str, object], setting: str
    ) -> None:
        setup.coolify.set_faults(fault)
        health = await setup.backend.check(timeout_s=TIMEOUT_S)
        assert not health.ok
        assert setting in health.detail

    async def test_check_reports_missing_deploy_ability_after_first_start(
        self, setup: CoolifySetup
    ) -> None:
        container_id = await setup.ensure()
        setup.coolify.set_faults({"missingAbility": {"ability": "deploy"}})
        assert (await setup.backend.check(timeout_s=TIMEOUT_S)).ok
        with pytest.raises(BackendRefused, match="deploy"):
            await setup.start(container_id, 1)
        assert not (await setup.backend.check(timeout_s=TIMEOUT_S)).ok

    async def test_user_who_is_not_an_admin_is_named(self, setup: CoolifySetup) -> None:
        setup.coolify.set_faults({"notTeamAdmin": True})
        with pytest.raises(BackendRefused, match="is not an admin of the team") as caught:
            await setup.ensure()
        assert caught.value.setting == "backends.coolify.token"
        assert "address" not in str(caught.value)

    async def test_rate_limit_pauses_the_budget(self, setup: CoolifySetup) -> None:
        with pytest.raises(BudgetExhausted) as caught:
            for _ in range(300):
                await setup.backend.list_owned(timeout_s=TIMEOUT_S)
        assert 0 < caught.value.retry_after_s <= 60
        assert setup.budget.paused_s == [caught.value.retry_after_s]

    async def test_token_that_cannot_read_values_can_stop(self, setup: CoolifySetup) -> None:
        container_id = await setup.ensure()
        await setup.start(container_id, 1)
        setup.advance(1000)
        setup.coolify.set_faults({"hideSensitive": True})
        await setup.stop(container_id, 1)
        setup.advance(100)
        assert (await setup.observe(container_id)).state is ContainerState.EXITED
        with pytest.raises(BackendRefused, match="read:sensitive"):
            await setup.start(container_id, 2)

    async def test_check_reports_unreachable_server(self, setup: CoolifySetup) -> None:
        assert (await setup.backend.check(timeout_s=TIMEOUT_S)).ok
        setup.coolify.set_faults({"serverUnreachable": True})
        health = await setup.backend.check(timeout_s=TIMEOUT_S)
        assert not health.ok
        assert "server" in health.detail

    async def test_written_description_is_stored_unchanged(self, setup: CoolifySetup) -> None:
        container_id = await setup.ensure()
        for text in (
            "[BUSY] Bot #7 - 2025-12-16T21:30:00Z",
            " <b>x</b> ",
            "y" * 300,
            "z" * 254 + "  !",
        ):
            await setup.backend.describe(container_id, text, timeout_s=TIMEOUT_S)
            first = setup.coolify.applications[container_id].description
            assert first
            await setup.backend.describe(container_id, first, timeout_s=TIMEOUT_S)
            assert setup.coolify.applications[container_id].description == first


async def test_start_and_stop_over_a_real_socket(harness: CoolifyHarness) -> None:
    async with EmulatorServer(harness.coolify, harness.clock) as server:
        backend = CoolifyBackend(config(url=server.url), harness.budget)
        container_id = await backend.ensure(SPEC, stop_through=NO_ASSIGNMENT, timeout_s=TIMEOUT_S)
        for fault in ("resetConnection", "halfAnswer"):
            harness.coolify.set_faults({fault: {"times": 2, "endpoint": "GET /applications"}})
            with pytest.raises(BackendUnavailable):
                await backend.list_owned(timeout_s=TIMEOUT_S)
            harness.coolify.set_faults({fault: None})
        await backend.start(start_request(harness, container_id, 1), timeout_s=TIMEOUT_S)
        await eventually(lambda: harness.runs(AssignmentId(1)))
        await wait_for_state(backend, container_id, ContainerState.RUNNING)
        await backend.stop(container_id, AssignmentId(1), timeout_s=TIMEOUT_S)
        await wait_until_down(backend, container_id)
        await backend.close()
