"""A backend that keeps the Protocol's promises and no others, and sees what really ran.

Its calls take turns like transactions: before they arrive, and before their answer does. A call may
get lost, its answer may get lost, and a caller that gave up may have asked for something that
happens a little later all the same. Containers take their time to start and to stop, crash, and
are deleted by strangers. What must never happen, it writes down as a violation.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, TypeVar

from botpool.backends.protocol import ContainerSpec, Health, OwnedContainer, StartRequest
from botpool.domain.errors import BackendUnavailable, ContainerGone, StartSuperseded, StillRunning
from botpool.domain.ids import AssignmentId, BotId, ContainerId, DeploymentId
from botpool.domain.observation import ContainerState, DeploymentState, Observation
from tests.schedules.conductor import Conductor

T = TypeVar("T")
_UP = frozenset({ContainerState.STARTING, ContainerState.RUNNING})


@dataclass
class Run:
    """One start of one container: for whom, and the agent that lives in it."""

    container_id: ContainerId
    assignment_id: AssignmentId
    bot_id: BotId
    task: "asyncio.Task[None] | None" = None


@dataclass
class Container:
    name: str
    state: ContainerState = ContainerState.STOPPED
    stopped_through: int = 0
    run: Run | None = None
    """The last one; it goes on as long as the state is up."""
    started: set[AssignmentId] = field(default_factory=set)


@dataclass
class Manners:
    """How a backend behaves, and how likely it is to fail."""

    start_s: tuple[float, float] = (0.0, 2.0)
    stop_s: tuple[float, float] = (0.0, 4.0)
    lost: float = 0.0
    answer_lost: float = 0.0
    late: float = 0.5
    """That what a caller gave up on happens all the same."""
    start_fails: float = 0.0


class PoolName:
    def __init__(
        self, conductor: Conductor, manners: Manners, live: Callable[[Run], Any], *, maximum: int
    ) -> None:
        """`live`: what an agent does, from its container's start to its end.

        `maximum`: how many containers may be up at once.
        """
        self.conductor = conductor
        self.manners = manners
        self.containers: dict[ContainerId, Container] = {}
        self.violations: list[str] = []
        self.down_at: dict[BotId, float] = {}
        """When a bot's container first ended, whatever ended it."""
        self.lines: list[Line] = []
        self.arriving: set[asyncio.Task[None]] = set()
        self._live = live
        self._maximum = maximum
        self._made = 0

    @property
    def up(self) -> list[Container]:
        return [each for each in self.containers.values() if each.state in _UP]

    @property
    def running(self) -> list[Run]:
        return [container.run for container in self.up if container.run is not None]

    # What happens there.

    def ensure(self, spec: ContainerSpec) -> ContainerId:
        for container_id, container in self.containers.items():
            if container.name == spec.name:
                self._end(container_id)
                if container.state in _UP:
                    raise StillRunning(container_id)
                return container_id
        self._made += 1
        container_id = ContainerId(f"{spec.name}.{self._made}")
        self.containers[container_id] = Container(name=spec.name)
        return container_id

    def start(self, order: StartRequest) -> None:
        container = self.find(order.container_id)
        if order.assignment_id <= container.stopped_through:
            raise StartSuperseded(order.container_id, "it was stopped already")
        if order.assignment_id in container.started:
            return
        bot_id = json.loads(order.environment["BOT_DATA"])["id"]
        if container.state in _UP:
            self._violated(f"{container.name} started for {bot_id} while it runs for another")
        if len(self.up) >= self._maximum:
            self._violated(f"{len(self.up)} of {self._maximum} run when {bot_id} is started")
        if any(other.run and other.run.bot_id == bot_id for other in self.up):
            self._violated(f"bot {bot_id} started in a second container")
        container.started.add(order.assignment_id)
        container.run = Run(order.container_id, order.assignment_id, bot_id)
        if self.conductor.chance.random() < self.manners.start_fails:
            container.state = ContainerState.ERROR
            return
        container.state = ContainerState.STARTING
        self._later(self.manners.start_s, self._is_up, container, container.run)

    def stop(self, container_id: ContainerId, assignment_id: AssignmentId | None) -> None:
        container = self.find(container_id)
        if assignment_id is not None:
            container.stopped_through = max(container.stopped_through, assignment_id)
            if container.run and container.run.assignment_id > assignment_id:
                return
        self._end(container_id)

    def delete(self, container_id: ContainerId) -> None:
        if container_id in self.containers:
            self.containers[container_id].stopped_through = 2**62
            self.exit(container_id, ContainerState.STOPPED)
            del self.containers[container_id]

    def exit(self, container_id: ContainerId, state: ContainerState) -> None:
        """The run is over, whatever ended it."""
        container = self.containers[container_id]
        if container.run is not None:
            self.down_at.setdefault(container.run.bot_id, self.conductor.now)
            if container.run.task is not None:
                container.run.task.cancel()
        container.state = state
        self._hint(container_id)

    def find(self, container_id: ContainerId) -> Container:
        if container_id not in self.containers:
            raise ContainerGone(container_id)
        return self.containers[container_id]

    def observe(self, container_id: ContainerId) -> Observation:
        container = self.containers.get(container_id)
        if container is None:
            return Observation(container_id=container_id, state=ContainerState.GONE)
        run = container.run
        return Observation(
            container_id=container_id,
            state=container.state,
            assignment_id=run.assignment_id if run else None,
        )

    def _is_up(self, container: Container, run: Run) -> None:
        if container.run is run and container.state is ContainerState.STARTING:
            container.state = ContainerState.RUNNING
            run.task = asyncio.ensure_future(self._live(run))
            self._hint(run.container_id)

    def _end(self, container_id: ContainerId) -> None:
        container, run = self.containers[container_id], self.containers[container_id].run
        if container.state in _UP:
            self._later(self.manners.stop_s, self._has_ended, container_id, container, run)
        else:
            container.state = ContainerState.STOPPED

    def _has_ended(self, container_id: ContainerId, container: Container, run: Run | None) -> None:
        if self.containers.get(container_id) is container and container.run is run:
            self.exit(container_id, ContainerState.STOPPED)

    def _later(self, seconds: tuple[float, float], act: Callable[..., None], *about: Any) -> None:
        delay = self.conductor.chance.uniform(*seconds)
        asyncio.get_running_loop().call_later(delay, act, *about)

    def _hint(self, container_id: ContainerId) -> None:
        for line in self.lines:
            if self.conductor.chance.random() < 0.7:
                line.hints.put_nowait(container_id)

    def _violated(self, what: str) -> None:
        self.violations.append(f"{self.conductor.now:.3f} {what}")


class Line:
    """The backend as one replica reaches it: a `Backend`."""

    name = "process"
    image_host = "here"
    status_lag_s = 0.0
    has_descriptions = False

    def __init__(self, pool_name: PoolName, owner: str, concurrent_starts: int | None) -> None:
        self.concurrent_starts = concurrent_starts
        self.hints: asyncio.Queue[ContainerId] = asyncio.Queue()
        self._platform = pool_name
        self._owner = owner
        self._dead = False
        pool_name.lines.append(self)

    def die(self) -> None:
        self._dead = True
        self._platform.lines.remove(self)

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def ensure(self, spec: ContainerSpec, *, timeout_s: float) -> ContainerId:
        return await self._call(f"ensure {spec.name}", lambda: self._platform.ensure(spec))

    async def start(self, order: StartRequest, *, timeout_s: float) -> DeploymentId | None:
        what = f"start {order.container_id} for {order.assignment_id}"
        await self._call(what, lambda: self._platform.start(order))
        return None

    async def deployment(
        self, container_id: ContainerId, deployment_id: DeploymentId, *, timeout_s: float
    ) -> DeploymentState | None:
        return None

    async def observe(
        self, container_ids: Sequence[ContainerId], *, timeout_s: float
    ) -> Mapping[ContainerId, Observation]:
        return await self._call(
            "observe", lambda: {each: self._platform.observe(each) for each in container_ids}
        )

    async def stop(
        self, container_id: ContainerId, assignment_id: AssignmentId | None, *, timeout_s: float
    ) -> None:
        what = f"stop {container_id} of {assignment_id}"
        await self._call(what, lambda: self._platform.stop(container_id, assignment_id))

    async def delete(self, container_id: ContainerId, *, timeout_s: float) -> None:
        await self._call(f"delete {container_id}", lambda: self._platform.delete(container_id))

    async def list_owned(self, *, timeout_s: float) -> Sequence[OwnedContainer]:
        def listed() -> list[OwnedContainer]:
            containers = self._platform.containers.items()
            return [
                OwnedContainer(container_id=each, name=found.name) for each, found in containers
            ]

        return await self._call("list", listed)

    async def describe(self, container_id: ContainerId, text: str, *, timeout_s: float) -> None: ...

    async def logs(
        self,
        container_id: ContainerId,
        assignment_id: AssignmentId,
        *,
        tail: int | None,
        follow: bool,
    ) -> AsyncIterator[bytes]:
        yield b""

    async def changes(self) -> AsyncIterator[ContainerId]:
        while True:
            yield await self.hints.get()

    async def check(self, *, timeout_s: float) -> Health:
        return Health(ok=True)

    async def _call(self, what: str, act: Callable[[], T]) -> T:
        conductor, manners = self._platform.conductor, self._platform.manners
        try:
            await self._turn(what)
        except asyncio.CancelledError:
            if conductor.chance.random() < manners.late:
                self._happens_later(what, act)
            raise
        self._fail(manners.lost)
        answer = act()
        await self._turn(f"{what}: answer")
        self._fail(manners.answer_lost)
        return answer

    def _happens_later(self, what: str, act: Callable[[], Any]) -> None:
        async def arrive() -> None:
            await self._platform.conductor.turn(f"{self._owner} {what}: late")
            with suppress(ContainerGone, StartSuperseded, StillRunning):
                act()  # Its answer reaches nobody.

        # It is on its way: no death of its sender takes it back.
        arriving = asyncio.get_running_loop().create_task(arrive(), context=Context())
        self._platform.arriving.add(arriving)
        arriving.add_done_callback(self._platform.arriving.discard)

    async def _turn(self, what: str) -> None:
        if not self._dead:
            await self._platform.conductor.turn(f"{self._owner} {what}")
        if self._dead:
            raise asyncio.CancelledError

    def _fail(self, probability: float) -> None:
        if self._platform.conductor.chance.random() < probability:
            raise BackendUnavailable("no answer")
