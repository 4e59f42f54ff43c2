"""A simulated backend that keeps the promises of the `Backend` protocol and no others.

Each call waits for a turn before it arrives and before its response arrives. A call or its response
may get lost, and a cancelled call may still take effect later. Containers start and stop slowly,
crash, and get deleted by others. The backend records each forbidden start as a violation.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, TypeVar

from botpool.backends.protocol import (
    NO_RUNS,
    ContainerSpec,
    Health,
    OwnedContainer,
    StartRequest,
    StopMode,
)
from botpool.domain.errors import (
    BackendUnavailable,
    CallSuperseded,
    ContainerGone,
    StartSuperseded,
    StillRunning,
)
from botpool.domain.ids import AssignmentId, BotId, ContainerId, DeploymentId, SlotId
from botpool.domain.observation import ContainerState, DeploymentState, ExpectedRun, Observation
from botpool.domain.tokens import standby_of
from tests.schedules.turn_scheduler import TurnScheduler

T = TypeVar("T")
_UP = frozenset({ContainerState.STARTING, ContainerState.RUNNING})


@dataclass
class Run:
    """One start of a container for a bot or a standby, and the task of its agent."""

    container_id: ContainerId
    assignment_id: AssignmentId
    """The assignment, or the run of a standby: both come from one sequence."""
    bot_id: BotId | None
    """The bot that the container knows; a standby knows none before the answer to its poll."""
    slot_id: SlotId | None = None
    """The slot in a standby's token."""
    task: "asyncio.Task[None] | None" = None


@dataclass
class Container:
    name: str
    state: ContainerState = ContainerState.STOPPED
    stopped_through: int = 0
    run: Run | None = None
    """The last run; it is active while the state is starting or running."""
    started: set[AssignmentId] = field(default_factory=set)


@dataclass
class BackendFaults:
    """How slow the backend is, and how likely its calls fail."""

    start_s: tuple[float, float] = (0.0, 2.0)
    stop_s: tuple[float, float] = (0.0, 4.0)
    lost: float = 0.0
    response_lost: float = 0.0
    late: float = 0.5
    """The probability that a cancelled call still takes effect."""
    start_fails: float = 0.0


class SimulatedBackend:
    def __init__(
        self,
        scheduler: TurnScheduler,
        backend_faults: BackendFaults,
        run_agent: Callable[[Run], Any],
        *,
        maximum: int,
    ) -> None:
        """`run_agent`: what an agent does, from its container's start to its end.

        `maximum`: how many containers may be up at once.
        """
        self.scheduler = scheduler
        self.backend_faults = backend_faults
        self.containers: dict[ContainerId, Container] = {}
        self.violations: list[str] = []
        self.down_at: dict[BotId, float] = {}
        """When a container of the bot first ended."""
        self.connections: list[BackendConnection] = []
        self.late_calls: set[asyncio.Task[None]] = set()
        self._run_agent = run_agent
        self._maximum = maximum
        self._created = 0

    @property
    def up(self) -> list[Container]:
        return [each for each in self.containers.values() if each.state in _UP]

    @property
    def running(self) -> list[Run]:
        return [container.run for container in self.up if container.run is not None]

    # Effects of calls, and events.

    def ensure(self, spec: ContainerSpec, stop_through: AssignmentId) -> ContainerId:
        for container_id, container in self.containers.items():
            if container.name == spec.name:
                self._require_through(container_id, stop_through)
                self._stop_run(container_id)
                if container.state in _UP:
                    raise StillRunning(container_id)
                return container_id
        self._created += 1
        container_id = ContainerId(f"{spec.name}.{self._created}")
        self.containers[container_id] = Container(name=spec.name)
        return container_id

    def start(self, request: StartRequest) -> None:
        container = self.find(request.container_id)
        if request.assignment_id <= container.stopped_through:
            raise StartSuperseded(request.container_id, "it was stopped already")
        if request.assignment_id in container.started:
            return
        run = _run_of(request)
        bot_id = run.bot_id
        if container.state in _UP:
            self._record_violation(
                f"{container.name} started for {bot_id} while it runs for another"
            )
        if len(self.up) >= self._maximum:
            self._record_violation(
                f"{len(self.up)} of {self._maximum} run when {bot_id} is started"
            )
        if bot_id is not None and any(run.bot_id == bot_id for run in self.running):
            self._record_violation(f"bot {bot_id} started in a second container")
        container.started.add(request.assignment_id)
        container.run = run
        if self.scheduler.rng.random() < self.backend_faults.start_fails:
            container.state = ContainerState.ERROR
            return
        container.state = ContainerState.STARTING
        self._later(self.backend_faults.start_s, self._finish_start, container, container.run)

    def stop(self, container_id: ContainerId, assignment_id: AssignmentId) -> None:
        container = self.find(container_id)
        container.stopped_through = max(container.stopped_through, assignment_id)
        if container.run and container.run.assignment_id > assignment_id:
            return
        self._stop_run(container_id)

    def delete(self, container_id: ContainerId, stop_through: AssignmentId) -> None:
        if container_id in self.containers:
            self._require_through(container_id, stop_through)
            self.containers[container_id].stopped_through = 2**62
            self.exit(container_id, ContainerState.STOPPED)
            del self.containers[container_id]

    def exit(self, container_id: ContainerId, state: ContainerState) -> None:
        """End the run of a container."""
        container = self.containers[container_id]
        self._end_boot(container)
        container.state = state
        self._send_hint(container_id)

    def restart(self, container_id: ContainerId) -> None:
        """End the process in a container and start it again with the same environment."""
        container = self.containers[container_id]
        if container.state is ContainerState.RUNNING and container.run is not None:
            self._end_boot(container)
            container.run.task = asyncio.ensure_future(self._run_agent(container.run))

    def _end_boot(self, container: Container) -> None:
        run = container.run
        if run is None:
            return
        if run.bot_id is not None:
            self.down_at.setdefault(run.bot_id, self.scheduler.now)
        if run.task is not None:
            run.task.cancel()

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

    def _require_through(self, container_id: ContainerId, through: AssignmentId) -> None:
        run = self.containers[container_id].run
        if run is not None and run.assignment_id > through:
            raise CallSuperseded(container_id, f"assignment {run.assignment_id} came later")

    def _finish_start(self, container: Container, run: Run) -> None:
        if container.run is run and container.state is ContainerState.STARTING:
            container.state = ContainerState.RUNNING
            run.task = asyncio.ensure_future(self._run_agent(run))
            self._send_hint(run.container_id)

    def _stop_run(self, container_id: ContainerId) -> None:
        container, run = self.containers[container_id], self.containers[container_id].run
        if container.state in _UP:
            self._later(self.backend_faults.stop_s, self._finish_stop, container_id, container, run)
        else:
            container.state = ContainerState.STOPPED

    def _finish_stop(
        self, container_id: ContainerId, container: Container, run: Run | None
    ) -> None:
        if self.containers.get(container_id) is container and container.run is run:
            self.exit(container_id, ContainerState.STOPPED)

    def _later(self, seconds: tuple[float, float], act: Callable[..., None], *about: Any) -> None:
        delay = self.scheduler.rng.uniform(*seconds)
        asyncio.get_running_loop().call_later(delay, act, *about)

    def _send_hint(self, container_id: ContainerId) -> None:
        for connection in self.connections:
            if self.scheduler.rng.random() < 0.7:
                connection.hints.put_nowait(container_id)

    def _record_violation(self, what: str) -> None:
        self.violations.append(f"{self.scheduler.now:.3f} {what}")


def _run_of(request: StartRequest) -> Run:
    environment = request.environment
    if "BOT_DATA" in environment:
        bot_id = json.loads(environment["BOT_DATA"])["id"]
        return Run(request.container_id, request.assignment_id, bot_id)
    standby = standby_of(environment["BOTPOOL_STANDBY_TOKEN"], (b"",))
    assert standby is not None
    slot_id, run_id = standby
    return Run(request.container_id, run_id, None, slot_id)


class BackendConnection:
    """The backend as one replica calls it: an implementation of `Backend`."""

    name = "process"
    image_host = "here"
    status_lag_s = 0.0
    has_descriptions = False
    can_abandon_runs = False
    stop_removes_output = False
    concurrent_pulls = 1

    def __init__(
        self, backend: SimulatedBackend, owner: str, concurrent_starts: int | None
    ) -> None:
        self.concurrent_starts = concurrent_starts
        self.hints: asyncio.Queue[ContainerId] = asyncio.Queue()
        self._backend = backend
        self._owner = owner
        self._crashed = False
        backend.connections.append(self)

    def crash(self) -> None:
        self._crashed = True
        self._backend.connections.remove(self)

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def ensure(
        self, spec: ContainerSpec, *, stop_through: AssignmentId, timeout_s: float
    ) -> ContainerId:
        what = f"ensure {spec.name} after {stop_through}"
        return await self._call(what, lambda: self._backend.ensure(spec, stop_through))

    async def start(self, request: StartRequest, *, timeout_s: float) -> DeploymentId | None:
        what = f"start {request.container_id} for {request.assignment_id}"
        await self._call(what, lambda: self._backend.start(request))
        return None

    async def deployment(
        self, container_id: ContainerId, deployment_id: DeploymentId, *, timeout_s: float
    ) -> DeploymentState | None:
        return None

    async def observe(
        self,
        container_ids: Sequence[ContainerId],
        *,
        expected: Mapping[ContainerId, ExpectedRun] = NO_RUNS,
        timeout_s: float,
    ) -> Mapping[ContainerId, Observation]:
        return await self._call(
            "observe", lambda: {each: self._backend.observe(each) for each in container_ids}
        )

    async def stop(
        self,
        container_id: ContainerId,
        assignment_id: AssignmentId,
        *,
        mode: StopMode = StopMode.ASK_THEN_KILL,
        timeout_s: float,
    ) -> None:
        what = f"stop {container_id} of {assignment_id}"
        await self._call(what, lambda: self._backend.stop(container_id, assignment_id))

    async def delete(
        self, container_id: ContainerId, *, stop_through: AssignmentId, timeout_s: float
    ) -> None:
        what = f"delete {container_id} after {stop_through}"
        await self._call(what, lambda: self._backend.delete(container_id, stop_through))

    async def list_owned(self, *, timeout_s: float) -> Sequence[OwnedContainer]:
        def listed() -> list[OwnedContainer]:
            containers = self._backend.containers.items()
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
        scheduler, backend_faults = self._backend.scheduler, self._backend.backend_faults
        try:
            await self._turn(what)
        except asyncio.CancelledError:
            if scheduler.rng.random() < backend_faults.late:
                self._apply_later(what, act)
            raise
        self._fail(backend_faults.lost)
        response = act()
        await self._turn(f"{what}: response")
        self._fail(backend_faults.response_lost)
        return response

    def _apply_later(self, what: str, act: Callable[[], Any]) -> None:
        async def arrive() -> None:
            await self._backend.scheduler.turn(f"{self._owner} {what}: late")
            with suppress(ContainerGone, CallSuperseded, StillRunning):
                act()  # No caller receives the response.

        # The call was sent: a crash of its sender does not cancel it.
        late_calls = asyncio.get_running_loop().create_task(arrive(), context=Context())
        self._backend.late_calls.add(late_calls)
        late_calls.add_done_callback(self._backend.late_calls.discard)

    async def _turn(self, what: str) -> None:
        if not self._crashed:
            await self._backend.scheduler.turn(f"{self._owner} {what}")
        if self._crashed:
            raise asyncio.CancelledError

    def _fail(self, probability: float) -> None:
        if self._backend.scheduler.rng.random() < probability:
            raise BackendUnavailable("no response")
