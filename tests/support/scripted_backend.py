"""A backend that a test scripts, and that records every call.

The backend keeps the rules of the Protocol (one run per assignment, none after its stop) unless a
test breaks them. The tests of real backends are in `tests/backends`.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from botpool.backends.protocol import (
    NO_RUNS,
    ContainerSpec,
    Health,
    OwnedContainer,
    StartRequest,
    StopMode,
)
from botpool.domain.errors import BotpoolError, CallSuperseded, ContainerGone, StartSuperseded
from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId
from botpool.domain.observation import (
    ACTIVE_DEPLOYMENT,
    ENDED_STATES,
    ContainerState,
    DeploymentState,
    ExpectedRun,
    Observation,
    UnreachableNode,
)


@dataclass
class Container:
    name: str
    image: str = ""
    state: ContainerState = ContainerState.STOPPED
    assignment_id: AssignmentId | None = None
    stopped_through: int = 0
    runs: list[AssignmentId] = field(default_factory=list)
    environment: Mapping[str, str] = field(default_factory=dict)
    deployment: DeploymentState | None = None
    infrastructure_fault: str = ""
    lost_node: UnreachableNode | None = None
    left_behind: set[AssignmentId] = field(default_factory=set)
    """Runs that go on on a lost node although the next run has started on another one."""


class ScriptedBackend:
    name = "process"
    has_descriptions = True
    can_abandon_runs = True
    stop_removes_output = False

    def __init__(self) -> None:
        self.image_host = "here"
        self.status_lag_s = 0.0
        self.concurrent_starts: int | None = None
        self.concurrent_pulls = 1
        self.containers: dict[ContainerId, Container] = {}
        self.calls: list[tuple[str, object]] = []
        self.protected: list[AssignmentId] = []
        self.missing_images: set[str] = set()
        """Like a cluster, more nodes of which lack these images than may pull at once."""
        self.start_requests: list[StartRequest] = []
        self.state_after_start = ContainerState.RUNNING
        self.states_of_images: dict[str, ContainerState] = {}
        """The state after a start by image, where it differs from `state_after_start`."""
        self.stops_work = True
        self.obeys_signals = True
        """Whether a container ends as soon as it gets the stop signal."""
        self.stop_modes: list[StopMode] = []
        self.exit_code: int | None = None
        """The code that an observation of an ended container shows."""
        self.deletes_at_once = True
        self.status_unreliable = False
        """Like a Coolify that cannot reach its server: its statuses are unreliable."""
        self.has_deployments = False
        """Like Coolify: a start has a deployment, and a status does not name its assignment."""
        self._failures: dict[str, list[BotpoolError]] = defaultdict(list)
        self._gates: dict[str, tuple[asyncio.Event, asyncio.Event]] = {}
        self._hints: asyncio.Queue[ContainerId] = asyncio.Queue()
        self._created = 0
        self.detail = ""
        """The text of every observation of a container that exists."""
        self.output: bytes | None = None
        """The output of every run; None for a line with its assignment."""

    def protect(
        self, container_id: ContainerId, assignment_id: AssignmentId, deployment_id: DeploymentId
    ) -> None:
        self.protected.append(assignment_id)

    async def find_missing_images(
        self, images: Collection[str], *, timeout_s: float
    ) -> Collection[str]:
        await self._called("find_missing_images", sorted(images))
        return self.missing_images & set(images)

    # Scripting.

    def fail(self, call: str, *errors: BotpoolError) -> None:
        """Let the next calls of that name fail, each with one of the errors."""
        self._failures[call] += errors

    def hold(self, call: str) -> tuple[asyncio.Event, asyncio.Event]:
        """Hold the next call of that name before it acts; returns (arrived, proceed)."""
        return self._gates.setdefault(call, (asyncio.Event(), asyncio.Event()))

    def hold_answer(self, call: str) -> tuple[asyncio.Event, asyncio.Event]:
        """Hold the answer of the next call of that name; returns (acted, proceed)."""
        return self._gates.setdefault(f"answer of {call}", (asyncio.Event(), asyncio.Event()))

    def forget_output(self) -> None:
        """Like a container that was removed, or that runs for another bot."""
        self.output = b""

    def release(self, call: str) -> None:
        """Cancel a hold that no call has reached."""
        self._gates.pop(call, None)

    def show(self, container_id: str, state: ContainerState) -> None:
        """Set the state that the backend shows for a container."""
        self.containers[ContainerId(container_id)].state = state

    def exit(self, container_id: str, code: int | None) -> None:
        """Let the container's program end with a code."""
        self.containers[ContainerId(container_id)].state = ContainerState.EXITED
        self.exit_code = code

    def evict(self, container_id: str, fault: str, *, code: int | None = 0) -> None:
        """End the container's run by an infrastructure fault; its program exits with a code."""
        self.exit(container_id, code)
        self.containers[ContainerId(container_id)].infrastructure_fault = fault

    def lose_node(self, container_id: str, node: str, since: datetime) -> None:
        """Let the node of a running container become unreachable; the container runs on."""
        lost = UnreachableNode(name=node, since=since)
        self.containers[ContainerId(container_id)].lost_node = lost

    def return_node(self, container_id: str) -> None:
        """Let the node return, which ends the runs that were stopped meanwhile."""
        container = self.containers[ContainerId(container_id)]
        container.left_behind = {
            run for run in container.left_behind if run > container.stopped_through
        }
        container.lost_node = None
        if (container.assignment_id or 0) <= container.stopped_through:
            container.state = ContainerState.STOPPED

    def finish(
        self, container_id: str, deployment: DeploymentState = DeploymentState.FINISHED
    ) -> None:
        """End the deployment of the container's start."""
        self.containers[ContainerId(container_id)].deployment = deployment

    def lose(self, container_id: str) -> None:
        """Delete a container without a call of the engine."""
        del self.containers[ContainerId(container_id)]

    def hint(self, container_id: str) -> None:
        """Announce a change of a container."""
        self._hints.put_nowait(ContainerId(container_id))

    def calls_of(self, call: str) -> list[object]:
        """Return the subjects of all calls of that name."""
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

    async def ensure(
        self, spec: ContainerSpec, *, stop_through: AssignmentId, timeout_s: float
    ) -> ContainerId:
        await self._called("ensure", spec.name)
        existing = [each for each, found in self.containers.items() if found.name == spec.name]
        if existing:
            container_id = existing[0]
            self._require_through(container_id, stop_through)
            self.containers[container_id].state = ContainerState.STOPPED
        else:
            self._created += 1
            container_id = ContainerId(f"{spec.name}.{self._created}")
            self.containers[container_id] = Container(name=spec.name)
        self.containers[container_id].image = spec.image
        await self._pass_gate("answer of ensure")
        return container_id

    async def start(self, request: StartRequest, *, timeout_s: float) -> DeploymentId | None:
        await self._called("start", request.assignment_id)
        self.start_requests.append(request)
        container = self._find(request.container_id)
        if request.assignment_id <= container.stopped_through:
            raise StartSuperseded(request.container_id, "it was stopped already")
        if request.assignment_id not in container.runs:
            if container.lost_node is not None and container.assignment_id is not None:
                container.left_behind.add(container.assignment_id)
            container.lost_node, container.infrastructure_fault = None, ""
            container.runs.append(request.assignment_id)
            container.assignment_id = request.assignment_id
            container.environment = request.environment
            container.state = self.states_of_images.get(container.image, self.state_after_start)
            if self.has_deployments:
                container.state = ContainerState.EXITED
                container.deployment = DeploymentState.IN_PROGRESS
        await self._pass_gate("answer of start")
        return DeploymentId(f"d{request.assignment_id}") if self.has_deployments else None

    async def deployment(
        self, container_id: ContainerId, deployment_id: DeploymentId, *, timeout_s: float
    ) -> DeploymentState | None:
        await self._called("deployment", deployment_id)
        return self._find(container_id).deployment

    async def observe(
        self,
        container_ids: Sequence[ContainerId],
        *,
        expected: Mapping[ContainerId, ExpectedRun] = NO_RUNS,
        timeout_s: float,
    ) -> Mapping[ContainerId, Observation]:
        await self._called("observe", tuple(container_ids))
        observations = {container_id: self._observe(container_id) for container_id in container_ids}
        await self._pass_gate("answer of observe")
        return observations

    async def stop(
        self,
        container_id: ContainerId,
        assignment_id: AssignmentId,
        *,
        mode: StopMode = StopMode.ASK_THEN_KILL,
        timeout_s: float,
    ) -> None:
        self.stop_modes.append(mode)
        await self._called("stop", assignment_id)
        container = self._find(container_id)
        container.stopped_through = max(container.stopped_through, assignment_id)
        if container.deployment in ACTIVE_DEPLOYMENT:
            container.deployment = DeploymentState.CANCELLED
        is_later = (container.assignment_id or 0) > assignment_id
        is_out_of_reach = is_later or container.lost_node is not None
        if (
            self.stops_work
            and not is_out_of_reach
            and (mode is not StopMode.ASK or self.obeys_signals)
        ):
            if container.state is ContainerState.RUNNING:
                self.exit_code = 143
            container.state = ContainerState.STOPPED
        await self._pass_gate("answer of stop")

    async def delete(
        self, container_id: ContainerId, *, stop_through: AssignmentId, timeout_s: float
    ) -> None:
        await self._called("delete", container_id)
        if container_id in self.containers:
            self._require_through(container_id, stop_through)
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
        output = f"output of {assignment_id}\n".encode() if self.output is None else self.output
        if output:
            yield output
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
            arrived, proceed = gate
            arrived.set()
            await proceed.wait()

    def _require_through(self, container_id: ContainerId, through: AssignmentId) -> None:
        runs = self.containers[container_id].runs
        if runs and max(runs) > through:
            raise CallSuperseded(container_id, f"assignment {max(runs)} came after {through}")

    def _find(self, container_id: ContainerId) -> Container:
        if container_id not in self.containers:
            raise ContainerGone(container_id)
        return self.containers[container_id]

    def _observe(self, container_id: ContainerId) -> Observation:
        container = self.containers.get(container_id)
        if container is None:
            return Observation(container_id=container_id, state=ContainerState.GONE)
        active = container.deployment if container.deployment in ACTIVE_DEPLOYMENT else None
        is_stopping = (container.assignment_id or 0) <= container.stopped_through
        is_unknown = container.lost_node is not None and is_stopping
        return Observation(
            container_id=container_id,
            state=ContainerState.UNKNOWN
            if self.status_unreliable or is_unknown
            else container.state,
            unreachable_node=container.lost_node,
            infrastructure_fault=container.infrastructure_fault,
            detail=self.detail,
            status_unreliable=self.status_unreliable,
            assignment_id=None if self.has_deployments else container.assignment_id,
            deployment=active,
            exit_code=self.exit_code if container.state in ENDED_STATES else None,
        )
