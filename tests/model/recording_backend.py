"""A scripted backend that records every run and every forbidden start."""

import json
from collections.abc import Mapping

from botpool.backends.protocol import StartRequest
from botpool.domain.errors import BackendRefused
from botpool.domain.ids import AssignmentId, BotId, ContainerId, DeploymentId
from botpool.domain.observation import ContainerState
from tests.support.scripted_backend import ScriptedBackend


class RecordingBackend(ScriptedBackend):
    """Records which containers really ran, for which bot, and at the same time as which others."""

    def __init__(self) -> None:
        super().__init__()
        self.violations: list[str] = []
        self.started: list[tuple[AssignmentId, BotId, ContainerId]] = []
        """Every run, in order. The agent of a run may call, also long after the run ended."""
        self.started_by_others: set[ContainerId] = set()
        """Containers that the test started, and not Botpool."""
        self.refused: set[object] = set()
        """Refused calls: the slot's name for a creation, the assignment for a start."""

    async def _called(self, call: str, about: object) -> None:
        try:
            await super()._called(call, about)
        except BackendRefused:
            self.refused.add(about)
            raise

    async def start(self, request: StartRequest, *, timeout_s: float) -> DeploymentId | None:
        before = {
            container_id: container.assignment_id
            for container_id, container in self.containers.items()
            if container.state in (ContainerState.RUNNING, ContainerState.STARTING)
            and container_id not in self.started_by_others
        }
        known = set(self.runs)
        deployment = await super().start(request, timeout_s=timeout_s)
        if request.assignment_id not in known:
            self._check_start(request, before)
        return deployment

    def _check_start(
        self, request: StartRequest, running: Mapping[ContainerId, AssignmentId | None]
    ) -> None:
        if request.container_id in running:
            self.violations.append(f"{request.container_id} was started while it ran")
        bot = json.loads(request.environment["BOT_DATA"])["id"]
        self.started.append((request.assignment_id, bot, request.container_id))
        for container_id in running.keys() - {request.container_id}:
            other = json.loads(self.containers[container_id].environment["BOT_DATA"])["id"]
            if other == bot:
                self.violations.append(
                    f"bot {bot} runs in {container_id} and {request.container_id}"
                )

    def clear_faults(self) -> None:
        """Make every later call work, and let held calls continue."""
        self.state_after_start = ContainerState.RUNNING
        self.stops_work = self.deletes_at_once = True
        self.status_unreliable = False
        self._failures.clear()
        for _, go_on in self._gates.values():
            go_on.set()
        self._gates.clear()
