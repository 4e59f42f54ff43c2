"""A backend whose containers exist in memory only: its agents are virtual (`virtual_agents.py`)."""

from collections.abc import Mapping, Sequence

from bench.null_backend import NullBackend
from botpool.backends.protocol import NO_RUNS, StartRequest, StopMode
from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId
from botpool.domain.observation import ContainerState, ExpectedRun, Observation


class VirtualBackend(NullBackend):
    name = "virtual"

    def __init__(self) -> None:
        self._running: dict[ContainerId, AssignmentId] = {}

    async def start(self, order: StartRequest, *, timeout_s: float) -> DeploymentId | None:
        self._running[order.container_id] = order.assignment_id
        return None

    async def stop(
        self,
        container_id: ContainerId,
        assignment_id: AssignmentId,
        *,
        mode: StopMode = StopMode.ASK_THEN_KILL,
        timeout_s: float,
    ) -> None:
        if self._running.get(container_id, assignment_id) <= assignment_id:
            self._running.pop(container_id, None)

    async def observe(
        self,
        container_ids: Sequence[ContainerId],
        *,
        expected: Mapping[ContainerId, ExpectedRun] = NO_RUNS,
        timeout_s: float,
    ) -> Mapping[ContainerId, Observation]:
        return {
            container_id: Observation(
                container_id=container_id,
                state=ContainerState.RUNNING
                if container_id in self._running
                else ContainerState.STOPPED,
            )
            for container_id in container_ids
        }
