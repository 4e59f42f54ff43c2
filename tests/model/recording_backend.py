"""A scripted backend that records every run and every forbidden start."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from botpool.backends.protocol import StartRequest
from botpool.domain.errors import BackendRefused
from botpool.domain.ids import AssignmentId, BotId, ContainerId, DeploymentId, SlotId
from botpool.domain.observation import ContainerState
from botpool.domain.tokens import standby_of
from tests.support.scripted_backend import ScriptedBackend


@dataclass(frozen=True, kw_only=True)
class StandbyRun:
    """A start of a container for a standby."""

    slot_id: SlotId
    run_id: AssignmentId
    container_id: ContainerId


class RecordingBackend(ScriptedBackend):
    """Records which containers really ran, for which bot, and at the same time as which others."""

    def __init__(self) -> None:
        super().__init__()
        self.violations: list[str] = []
        self.started: list[tuple[AssignmentId, BotId, ContainerId]] = []
        """Every run, in order. The agent of a run may call, also long after the run ended."""
        self.standbys: list[StandbyRun] = []
        """Every run of a standby, in order."""
        self.given: dict[AssignmentId, BotId] = {}
        """The bots that the runs of standbys got."""
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
        if "BOT_DATA" not in request.environment:
            standby = standby_of(request.environment["BOTPOOL_STANDBY_TOKEN"], (b"",))
            assert standby is not None
            slot_id, run_id = standby
            self.standbys.append(
                StandbyRun(slot_id=slot_id, run_id=run_id, container_id=request.container_id)
            )
            return
        bot = json.loads(request.environment["BOT_DATA"])["id"]
        self.started.append((request.assignment_id, bot, request.container_id))
        for container_id in running.keys() - {request.container_id}:
            if self._bot_in(container_id) == bot:
                self.violations.append(
                    f"bot {bot} runs in {container_id} and {request.container_id}"
                )

    @property
    def standby_ids(self) -> set[AssignmentId]:
        """The runs of standbys that got no bot: one with a bot serves no other."""
        return {each.run_id for each in self.standbys} - self.given.keys()

    def _bot_in(self, container_id: ContainerId) -> BotId | None:
        container = self.containers[container_id]
        if "BOT_DATA" in container.environment:
            return BotId(json.loads(container.environment["BOT_DATA"])["id"])
        return self.given.get(container.assignment_id or AssignmentId(0))

    def clear_faults(self) -> None:
        """Make every later call work, and let held calls continue."""
        self.state_after_start = ContainerState.RUNNING
        self.stops_work = self.deletes_at_once = True
        self.status_unreliable = False
        self._failures.clear()
        for _, go_on in self._gates.values():
            go_on.set()
        self._gates.clear()
