"""A backend without containers, for measures of the engine alone."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence

from botpool.backends.protocol import (
    NO_RUNS,
    ContainerSpec,
    Health,
    OwnedContainer,
    StartRequest,
    StopMode,
)
from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId
from botpool.domain.observation import ContainerState, DeploymentState, ExpectedRun, Observation


class NullBackend:
    name = "null"
    image_host = "here"
    status_lag_s = 0.0
    concurrent_starts: int | None = None
    concurrent_pulls = 1
    has_descriptions = False
    can_abandon_runs = False
    stop_removes_output = False

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def ensure(
        self, spec: ContainerSpec, *, stop_through: AssignmentId, timeout_s: float
    ) -> ContainerId:
        return ContainerId(spec.name)

    async def start(self, order: StartRequest, *, timeout_s: float) -> DeploymentId | None:
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
        return {
            container_id: Observation(container_id=container_id, state=ContainerState.STOPPED)
            for container_id in container_ids
        }

    async def stop(
        self,
        container_id: ContainerId,
        assignment_id: AssignmentId,
        *,
        mode: StopMode = StopMode.ASK_THEN_KILL,
        timeout_s: float,
    ) -> None: ...

    async def delete(
        self, container_id: ContainerId, *, stop_through: AssignmentId, timeout_s: float
    ) -> None: ...

    async def list_owned(self, *, timeout_s: float) -> Sequence[OwnedContainer]:
        return []

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
        await asyncio.Event().wait()
        yield ContainerId("never")

    async def check(self, *, timeout_s: float) -> Health:
        return Health(ok=True)
