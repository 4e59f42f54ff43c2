"""A backend whose pool_name does what a test says, and which remembers every call.

It keeps the Protocol's promises (one run for each assignment, none after its stop), and can break
them on purpose. It serves tests of the engine; containers for real are in `tests/backends`.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field

from botpool.backends.protocol import ContainerSpec, Health, OwnedContainer, StartRequest
from botpool.domain.errors import BotpoolError, ContainerGone, StartSuperseded
from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId
from botpool.domain.observation import (
    ACTIVE_DEPLOYMENT,
    ContainerState,
    DeploymentState,
    Observation,
)


@dataclass
class Container:
    name: str
    state: ContainerState = ContainerState.STOPPED
    assignment_id: AssignmentId | None = None
    stopped_through: int = 0
    runs: list[AssignmentId] = field(default_factory=list)
    environment: Mapping[str, str] = field(default_factory=dict)
    deployment: DeploymentState | None = None


class ScriptedBackend:
    name = "process"
    has_descriptions = True

    def __init__(self) -> None:
        self.image_host = "here"
        self.status_lag_s = 0.0
        self.concurrent_starts: int | None = None
        self.containers: dict[ContainerId, Container] = {}
        self.calls: list[tuple[str, object]] = []
        self.state_after_start = ContainerState.RUNNING
        self.stops_work = True
        self.deletes_at_once = True
        self.status_unreliable = False
        """Like a Coolify that cannot reach its server: whatever it shows does not count."""
        self.has_deployments = False
        """Like Coolify: a start has a deployment, and nobody says whose run a status shows."""
        self._failures: dict[str, list[BotpoolError]] = defaultdict(list)
        self._gates: dict[str, tuple[asyncio.Event, asyncio.Event]] = {}
        self._hints: asyncio.Queue[ContainerId] = asyncio.Queue()
        self._made = 0

    # What a test says.

    def fail(self, call: str, *errors: BotpoolError) -> None:
        """The next calls of that name fail with these, one each."""
        self._failures[call] += errors

    def hold(self, call: str) -> tuple[asyncio.Event, asyncio.Event]:
        """Stop the next call of that name before it acts: (it has come, let it go on)."""
        return self._gates.setdefault(call, (asyncio.Event(), asyncio.Event()))

    def hold_answer(self, call: str) -> tuple[asyncio.Event, asyncio.Event]:
        """Let the next call of that name act, and keep its answer: (it has acted, let it go on)."""
        return self._gates.setdefault(f"answer of {call}", (asyncio.Event(), asyncio.Event()))

    def release(self, call: str) -> None:
        """Hold nothing any more that did not come."""
        self._gates.pop(call, None)

    def show(self, container_id: str, state: ContainerState) -> None:
        """The backend now shows this state."""
        self.containers[ContainerId(container_id)].state = state

    def finish(
        self, container_id: str, deployment: DeploymentState = DeploymentState.FINISHED
    ) -> None:
        """The deployment of the container's start is over."""
        self.containers[ContainerId(container_id)].deployment = deployment

    def lose(self, container_id: str) -> None:
        """Somebody deleted the container behind our back."""
        del self.containers[ContainerId(container_id)]

    def hint(self, container_id: str) -> None:
        self._hints.put_nowait(ContainerId(container_id))

    def made(self, call: str) -> list[object]:
        return [about for name, about in self.calls if name == call]

    @property
    def runs(self) -> list[AssignmentId]:
        return [run for container in self.containers.values() for run in container.runs]

    @property
    def running(self) -> list[str]:
        return [
            container.name
            for container in self.containers.values()
            if container.state is ContainerState.RUNNING
        ]

    # The Protocol.

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def ensure(self, spec: ContainerSpec, *, timeout_s: float) -> ContainerId:
        await self._called("ensure", spec.name)
        there = [each for each, found in self.containers.items() if found.name == spec.name]
        if there:
            container_id = there[0]
            self.containers[container_id].state = ContainerState.STOPPED
        else:
            self._made += 1
            container_id = ContainerId(f"{spec.name}.{self._made}")
            self.containers[container_id] = Container(name=spec.name)
        await self._pass_gate("answer of ensure")
        return container_id

    async def start(self, order: StartRequest, *, timeout_s: float) -> DeploymentId | None:
        await self._called("start", order.assignment_id)
        container = self._find(order.container_id)
        if order.assignment_id <= container.stopped_through:
            raise StartSuperseded(order.container_id, "it was stopped already")
        if order.assignment_id not in container.runs:
            container.runs.append(order.assignment_id)
            container.assignment_id = order.assignment_id
            container.environment = order.environment
            container.state = self.state_after_start
            if self.has_deployments:
                container.state = ContainerState.EXITED
                container.deployment = DeploymentState.IN_PROGRESS
        await self._pass_gate("answer of start")
        return DeploymentId(f"d{order.assignment_id}") if self.has_deployments else None

    async def deployment(
        self, container_id: ContainerId, deployment_id: DeploymentId, *, timeout_s: float
    ) -> DeploymentState | None:
        await self._called("deployment", deployment_id)
        return self._find(container_id).deployment

    async def observe(
        self, container_ids: Sequence[ContainerId], *, timeout_s: float
    ) -> Mapping[ContainerId, Observation]:
        await self._called("look", tuple(container_ids))
        seen = {container_id: self._observe(container_id) for container_id in container_ids}
        await self._pass_gate("answer of look")
        return seen

    async def stop(
        self, container_id: ContainerId, assignment_id: AssignmentId | None, *, timeout_s: float
    ) -> None:
        await self._called("stop", assignment_id)
        container = self._find(container_id)
        if assignment_id is not None:
            container.stopped_through = max(container.stopped_through, assignment_id)
        if container.deployment in ACTIVE_DEPLOYMENT:
            container.deployment = DeploymentState.CANCELLED
        if self.stops_work:
            container.state = ContainerState.STOPPED
        await self._pass_gate("answer of stop")

    async def delete(self, container_id: ContainerId, *, timeout_s: float) -> None:
        await self._called("delete", container_id)
        if self.deletes_at_once:
            self.containers.pop(container_id, None)

    async def list_owned(self, *, timeout_s: float) -> Sequence[OwnedContainer]:
        await self._called("list_owned", None)
        return [
            OwnedContainer(container_id=container_id, name=container.name)
            for container_id, container in self.containers.items()
        ]

    async def describe(self, container_id: ContainerId, text: str, *, timeout_s: float) -> None:
        await self._called("describe", text)

    async def logs(
        self,
        container_id: ContainerId,
        assignment_id: AssignmentId,
        *,
        tail: int | None,
        follow: bool,
    ) -> AsyncIterator[bytes]:
        await self._called("logs", assignment_id)
        yield f"output of {assignment_id}\n".encode()
        await self._called("rest of logs", assignment_id)

    async def changes(self) -> AsyncIterator[ContainerId]:
        while True:
            yield await self._hints.get()

    async def check(self, *, timeout_s: float) -> Health:
        return Health(ok=True)

    async def _called(self, call: str, about: object) -> None:
        self.calls.append((call, about))
        await self._pass_gate(call)
        if self._failures[call]:
            raise self._failures[call].pop(0)

    async def _pass_gate(self, name: str) -> None:
        if gate := self._gates.pop(name, None):
            come, go_on = gate
            come.set()
            await go_on.wait()

    def _find(self, container_id: ContainerId) -> Container:
        if container_id not in self.containers:
            raise ContainerGone(container_id)
        return self.containers[container_id]

    def _observe(self, container_id: ContainerId) -> Observation:
        container = self.containers.get(container_id)
        if container is None:
            return Observation(container_id=container_id, state=ContainerState.GONE)
        under_way = container.deployment if container.deployment in ACTIVE_DEPLOYMENT else None
        return Observation(
            container_id=container_id,
            state=ContainerState.UNKNOWN if self.status_unreliable else container.state,
            status_unreliable=self.status_unreliable,
            assignment_id=None if self.has_deployments else container.assignment_id,
            deployment=under_way,
        )
