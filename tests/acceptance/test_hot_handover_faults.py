"""Many hot hand-overs under load, with agents that die, pause, lose answers or accept twice.

Two replicas of the real engine run with their loops on one database. The containers are virtual: a
task for each run, which speaks to a random replica. `make test` runs some bots, `make test-long` a
thousand.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import pytest

from botpool.backends.protocol import StartRequest, StopMode
from botpool.domain.ids import AssignmentId, BotId, ContainerId, DeploymentId
from botpool.domain.observation import ContainerState
from botpool.domain.policy import Policy
from botpool.domain.states import BotStatus
from botpool.domain.tokens import assignment_of, run_of, standby_of
from botpool.domain.warm import Warm
from botpool.engine.agents.standby_polls import PollAnswer
from botpool.engine.replica import Replica
from tests.support.clock import Clock
from tests.support.invariants import assert_invariants
from tests.support.replicas import Stage, bot_request, pool
from tests.support.scripted_backend import ScriptedBackend

HOT, SLOTS, TIMEOUT_S = 10, 16, 1.0


@dataclass
class VirtualContainers(ScriptedBackend):
    """Runs an agent as a task for each start, and kills it with the stop."""

    replicas: list[Replica]
    faults: random.Random
    joins: Counter[BotId] = field(default_factory=Counter)
    done: Counter[str] = field(default_factory=Counter)
    tasks: dict[ContainerId, asyncio.Task[None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()

    async def start(self, request: StartRequest, *, timeout_s: float) -> DeploymentId | None:
        is_new = request.assignment_id not in self.containers[request.container_id].runs
        result = await super().start(request, timeout_s=timeout_s)
        if is_new:
            agent = self._run(request.container_id, dict(request.environment))
            self.tasks[request.container_id] = asyncio.create_task(agent)
        return result

    async def stop(
        self,
        container_id: ContainerId,
        assignment_id: AssignmentId,
        *,
        mode: StopMode = StopMode.ASK_THEN_KILL,
        timeout_s: float,
    ) -> None:
        container = self.containers[container_id]
        if container.assignment_id is not None and container.assignment_id <= assignment_id:
            self._kill(container_id)
        await super().stop(container_id, assignment_id, mode=mode, timeout_s=timeout_s)

    def _kill(self, container_id: ContainerId) -> None:
        if (task := self.tasks.pop(container_id, None)) is not None:
            task.cancel()

    def _replica(self) -> Replica:
        return self.faults.choice(self.replicas)

    async def _run(self, container_id: ContainerId, environment: dict[str, str]) -> None:
        if "BOTPOOL_TOKEN" in environment:
            await self._attend(container_id, environment["BOTPOOL_TOKEN"], accepts=1)
            return
        found = standby_of(environment["BOTPOOL_STANDBY_TOKEN"], (b"",))
        assert found is not None
        boot = str(random.getrandbits(64))
        answer = PollAnswer()
        while answer.handover is None and not answer.should_exit:
            answer = await self._replica().standby_polls.wait(*found, boot_id=boot, wait_s=1)
        if answer.should_exit:
            return
        fault = self.faults.choice(["none"] * 6 + ["killed", "paused", "slow", "lost", "twice"])
        self.done[fault] += 1
        match fault:
            case "killed":
                self.exit(container_id, 137)
                self.hint(container_id)
                return
            case "paused":
                await asyncio.sleep(TIMEOUT_S * 2)
            case "slow":
                await asyncio.sleep(TIMEOUT_S * self.faults.random())
            case "lost":
                again = await self._replica().standby_polls.wait(*found, boot_id=boot, wait_s=5)
                assert again.should_exit or again.token == answer.token
        await self._attend(
            container_id, answer.token, accepts=2 if fault == "twice" else 1, boot=boot
        )

    async def _attend(
        self, container_id: ContainerId, token: str, *, accepts: int, boot: str = "cold"
    ) -> None:
        assignment, run_id = assignment_of(token, (b"key",)), run_of(token)
        assert assignment is not None
        for _ in range(accepts):
            agents = self._replica().agents
            if run_id is None:
                view, must_exit = await agents.identify(assignment, container_id, boot)
            else:
                view, must_exit = await agents.accept(assignment, run_id, container_id, boot)
            if must_exit:
                return
        self.joins[view.bot.id] += 1
        await asyncio.sleep(0.02)
        await self._replica().agents.report(assignment, view.bot.id, BotStatus.DONE, None)


@pytest.fixture
async def containers(stage: Stage, clock: Clock) -> AsyncIterator[VirtualContainers]:
    backend = VirtualContainers([], random.Random(7))
    stage.backend = backend
    spec = pool(SLOTS, warm=Warm(hot=HOT, handover_timeout_s=TIMEOUT_S))
    for _ in range(2):
        backend.replicas.append(await stage.replica(spec, policy=Policy(queue_poll_s=0.1)))
    for replica in backend.replicas:
        await replica.start()
    yield backend
    for replica in backend.replicas:
        await replica.stop()
    for task in backend.tasks.values():
        task.cancel()


@pytest.mark.parametrize("bots", [60, pytest.param(1000, marks=pytest.mark.long)])
async def test_no_bot_is_lost_or_runs_twice(
    stage: Stage, containers: VirtualContainers, bots: int
) -> None:
    asked: list[BotId] = []
    for _ in range(bots):
        request = bot_request(queue_timeout_ms=600_000)
        asked.append((await containers._replica().admission.admit(request)).bot.id)
        await asyncio.sleep(containers.faults.random() * 0.1)
    async with asyncio.timeout(120 + bots):
        while stage.rows("SELECT 1 FROM bots WHERE ended_at IS NULL"):
            await asyncio.sleep(0.1)

    assert set(stage.statuses(*asked)) == {"DONE"}
    assert containers.joins == Counter(dict.fromkeys(asked, 1))
    given_up = stage.rows("SELECT count(*) AS n FROM assignments WHERE failure IS NOT NULL")
    counted = sum(
        replica.metrics.instruments.hot_handovers.labels("google-meet", "cold")._value.get()
        for replica in containers.replicas
    )
    assert counted == given_up[0]["n"]
    hot = stage.rows("SELECT count(*) AS n FROM assignments WHERE run_id IS NOT NULL")
    assert hot[0]["n"] > bots / 4, containers.done
    assert_invariants(stage.url)


async def test_floor_is_full_again_after_a_burst(
    stage: Stage, containers: VirtualContainers
) -> None:
    ready = "SELECT count(*) AS n FROM bot_pool_slots WHERE standby = 'ready'"
    async with asyncio.timeout(60):
        while stage.rows(ready)[0]["n"] < HOT:
            await asyncio.sleep(0.05)
    containers.faults.choice = lambda options: options[0]  # type: ignore[method-assign]
    requests = [bot_request(queue_timeout_ms=600_000) for _ in range(3 * HOT)]
    admitted = await asyncio.gather(*map(containers._replica().admission.admit, requests))
    first = stage.rows("SELECT count(*) AS n FROM assignments WHERE run_id IS NOT NULL")
    assert first[0]["n"] >= HOT, "the hot slots go first"
    async with asyncio.timeout(120):
        while stage.rows("SELECT 1 FROM bots WHERE ended_at IS NULL"):
            await asyncio.sleep(0.05)
        while stage.rows(ready)[0]["n"] < HOT:
            await asyncio.sleep(0.05)
    assert set(stage.statuses(*(each.bot.id for each in admitted))) == {"DONE"}
    assert ContainerState.RUNNING in {c.state for c in containers.containers.values()}
