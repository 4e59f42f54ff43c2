"""Slots as read before a step; the write that follows is fenced."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypedDict

from botpool.domain.communication import LeaveBy, Outcome
from botpool.domain.ids import AssignmentId, BotId, ContainerId, DeploymentId, PoolName, SlotId
from botpool.domain.observation import DeploymentState, ExpectedRun
from botpool.domain.states import FINAL, BotStatus, SlotPhase, SlotStatus, Standby

_AFTER_CALL = FINAL | {BotStatus.CALL_ENDED}


class Fence(TypedDict):
    """The values that a fenced write compares; it changes nothing if the slot has changed."""

    slot_id: SlotId
    assignment_id: AssignmentId | None
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FencedSlot:
    """The state of a slot; the write that depends on it is fenced."""

    slot_id: SlotId
    slot_name: str
    pool_name: PoolName
    status: SlotStatus
    container_id: ContainerId | None
    assignment_id: AssignmentId | None
    version: int

    @property
    def fence(self) -> Fence:
        return {
            "slot_id": self.slot_id,
            "assignment_id": self.assignment_id,
            "version": self.version,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendSlot(FencedSlot):
    """A slot and its bot, as read before a call to the slot's backend."""

    backend: str
    deployment_id: DeploymentId | None
    deployment_status: DeploymentState | None
    """The status of the deployment as last logged."""
    start_issued_at: datetime | None
    bot_id: BotId | None
    bot_status: BotStatus | None
    correlation_id: str | None
    leave_by: datetime | None
    finishing_at: datetime | None
    outcome: Outcome
    stop_grace_s: float
    """How long the container may take to stop by itself before Botpool kills it."""
    running_at: datetime | None
    status_unreliable_at: datetime | None
    """When the backend's statuses were last unreliable."""
    now: datetime
    run_id: AssignmentId | None = None
    """The current start of the container: the assignment, or a standby's run."""
    standby: Standby | None = None

    @property
    def run(self) -> AssignmentId | None:
        """The id under which the backend runs the container."""
        return self.run_id if self.run_id is not None else self.assignment_id

    @property
    def expected_run(self) -> ExpectedRun | None:
        """The run that the slot's container should have; None for a slot without a run."""
        if self.run is None:
            return None
        return ExpectedRun(
            assignment_id=self.run,
            deployment_id=self.deployment_id,
            is_protected=self._is_protected,
        )

    @property
    def _is_protected(self) -> bool | None:
        if self.bot_status in _AFTER_CALL:
            return False
        return True if self.status is SlotStatus.BUSY else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleasableSlot(BackendSlot):
    """A slot that a release may free."""

    failure: str | None
    """Why the deployment or the run failed; the bot is retried or fails after the release."""
    infrastructure_fault: bool
    """Whether the infrastructure ended the run, and not the slot or the bot."""
    stop_issued_at: datetime | None
    delete_issued_at: datetime | None
    unconfirmed_reason: str | None
    """Why the stop cannot be confirmed, as last observed."""
    unconfirmed_node: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedSlot(ReleasableSlot):
    """A slot that this replica has leased, with all data that its next step needs."""

    traceparent: str | None
    image: str
    """The image of the run's revision, or that the pool currently specifies."""
    created_image: str
    """The image that the container was created from."""
    created_limits: str | None
    """The limits that the container was created with."""
    cpus: float
    memory_mb: int
    is_paced: bool
    """Whether the start needs a permit of the pool's egress."""
    leave: LeaveBy
    finish_timeout_s: float
    gone_container_id: ContainerId | None
    """The container that vanished and that the slot's next one replaces."""
    phase: SlotPhase | None
    phase_at: datetime | None
    start_allowed_at: datetime | None
    """When the start was allowed; before that, no container of this assignment can run."""
    resets: int
    recreate_container: bool
    """Whether the next reset deletes the container and creates another one."""
    error_message: str | None
    step_attempts: int
    lease_until: datetime
    """When the lease ends, by the database's clock; identifies the lease."""
    meeting_url: str | None = field(repr=False)
    bot_display_name: str | None
    bot_data: Mapping[str, Any] | None = field(repr=False)
    attempts: int | None
    newest_assignment_id: AssignmentId
    """The newest assignment of any slot when the lease was taken."""
    abandoned_through: AssignmentId
    """The newest assignment whose slot an operator released by force; 0 if there is none."""
    run_started_at: datetime | None
    """When the agent of the standby first polled."""
    rollout_id: int | None = None
    """The rollout whose canary this run may be part of; None once the run has a revision."""

    @property
    def limits(self) -> str:
        """The limits that the pool currently specifies: CPUs, memory in MB, grace of a stop."""
        return f"{self.cpus:g}/{self.memory_mb}/{self.stop_grace_s:g}"

    @property
    def matches_pool(self) -> bool:
        """Whether the container was created with the pool's current image and limits."""
        return (self.created_image, self.created_limits) == (self.image, self.limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedSlot(ReleasableSlot):
    """A slot with a bot, whose container should run or have stopped."""

    container_id: ContainerId
    assignment_id: AssignmentId
    run_id: AssignmentId
    phase: SlotPhase | None
    bot_id: BotId
    bot_status: BotStatus
    correlation_id: str
    deployment_ended_at: datetime | None
    leads: bool
    """Whether its start leads the pull of its image, for which other slots may wait."""
    observed_running_at: datetime | None
    """When an observation, and not only the agent, first showed the container running."""
    needs_heartbeats: bool
    last_heartbeat_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class StuckSlot(BackendSlot):
    """A slot that a recovery pass checks."""

    phase: SlotPhase | None
    phase_at: datetime | None
    last_used_at: datetime | None
    skipped_recoveries: int
    resets: int
    error_message: str | None
    attempts: int | None
    """How often the bot was assigned to a slot."""
    needs_heartbeats: bool
    heartbeat_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedStandby(FencedSlot):
    """A standby whose container should run or have stopped."""

    backend: str
    container_id: ContainerId
    run_id: AssignmentId
    standby: Standby
    deployment_id: DeploymentId | None
    deployment_ended_at: datetime | None
    start_issued_at: datetime | None
    stop_issued_at: datetime | None
    delete_issued_at: datetime | None
    leads: bool
    """Whether its start leads the pull of its image, for which other slots may wait."""
    status_unreliable_at: datetime | None
    now: datetime

    @property
    def expected_run(self) -> ExpectedRun:
        """The run that the standby's container should have."""
        return ExpectedRun(assignment_id=self.run_id, deployment_id=self.deployment_id)


def expected_runs(
    slots: Iterable[BackendSlot | ObservedStandby],
) -> dict[ContainerId, ExpectedRun]:
    """Return the runs that the containers of these slots should have."""
    return {
        slot.container_id: run
        for slot in slots
        if slot.container_id is not None and (run := slot.expected_run) is not None
    }
