"""Records of the database as plain values. Fields are named as the columns they come from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypedDict

from botpool.domain.callers import Caller
from botpool.domain.communication import LeaveBy, Outcome
from botpool.domain.ids import (
    AssignmentId,
    BotId,
    ContainerId,
    DeploymentId,
    PoolName,
    SlotId,
    TenantId,
)
from botpool.domain.observation import DeploymentState, ExpectedRun
from botpool.domain.pacing import EgressState, Pacing
from botpool.domain.states import (
    BotStatus,
    EndReason,
    FailureCode,
    SlotPhase,
    SlotStatus,
    Standby,
)
from botpool.domain.warm import Warm


@dataclass(frozen=True, slots=True, kw_only=True)
class BotRequest:
    """A validated request for a bot."""

    caller: Caller
    pool_name: PoolName
    meeting_url: str = field(repr=False)
    bot_display_name: str
    bot_data: Mapping[str, Any] = field(repr=False)
    priority: int
    queue_timeout_ms: int
    correlation_id: str
    join_at: datetime | None = None
    """When a scheduled bot joins; None: as soon as it can."""
    expected_duration_ms: int | None = None
    require_reservation: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotencyKey:
    """The key by which an API key's repeated request finds the bot of the first one."""

    key: str
    body_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRequest:
    """A request for a bot, with the idempotency key that it carries."""

    bot: BotRequest
    key: IdempotencyKey | None

    @property
    def can_batch(self) -> bool:
        """Whether the request may be queued in one transaction with others.

        A request with an idempotency key may wait for the same key in another transaction. A
        request that does not queue rolls its transaction back if no slot is free.
        """
        return self.key is None and self.bot.queue_timeout_ms > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedBy:
    """The API key that created a bot."""

    key_id: int
    key_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bot:
    """A bot, as users see it."""

    id: BotId
    correlation_id: str
    pool_name: PoolName
    meeting_url: str = field(repr=False)
    bot_display_name: str
    status: BotStatus
    priority: int
    slot_name: str | None
    container_id: ContainerId | None
    attempts: int
    failure_reason: str | None
    failure_code: FailureCode | None
    end_reason: EndReason | None
    artifact_count: int
    created_at: datetime
    queued_at: datetime | None
    assigned_at: datetime | None
    started_at: datetime | None
    last_heartbeat_at: datetime | None
    finishing_at: datetime | None
    ended_at: datetime | None
    tenant: str
    created_by: CreatedBy | None
    stalled: bool
    """Whether the bot is in the call and alive, but has recorded nothing for too long."""
    join_at: datetime | None = None
    """When a scheduled bot joins; None for a bot that joins as soon as it can."""
    reserved: bool | None = None
    """Whether a slot is reserved for a scheduled bot."""
    on_time_probability: float | None = None
    at_risk: str | None = None
    """Why a scheduled bot will probably be late; None while it will not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedBot:
    """An admitted bot, with its position and estimated wait while it is queued."""

    bot: Bot
    position: int | None = None
    estimated_wait_ms: int | None = None
    replayed: bool = False
    progress: Mapping[str, Any] | None = None
    """The figures that the bot's heartbeats carried last."""
    last_media_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A slot, as operators see it."""

    id: SlotId
    name: str
    pool_name: PoolName
    number: int
    status: SlotStatus
    phase: SlotPhase | None
    assigned_bot_id: BotId | None
    container_id: ContainerId | None
    image: str
    last_assigned_at: datetime | None
    last_released_at: datetime | None
    last_used_at: datetime | None
    resets: int
    skipped_recoveries: int
    error_message: str | None
    unconfirmed_reason: str | None
    """Why the stop of the slot's container cannot be confirmed."""
    unconfirmed_node: str | None
    unconfirmed_since: datetime | None
    cordoned: bool
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSpec:
    """A pool as the settings define it."""

    pool_name: PoolName
    backend: str
    image: str
    max_size: int
    heartbeats: str
    cpus: float = 1.0
    memory_mb: int = 2048
    stalled_after_s: float = 0.0
    reservable: float = 0.8
    hold_s: float | None = None
    pacing: Pacing | None = None
    outcome: Outcome = Outcome.REPORT
    leave: LeaveBy = LeaveBy.HEARTBEAT
    finish_timeout_s: float = 900.0
    stop_grace_s: float = 30.0
    warm: Warm = field(default_factory=Warm)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool with its sizes, its queue and its times."""

    pool_name: PoolName
    backend: str
    image: str
    max_size: int
    heartbeats: str
    drained_at: datetime | None
    size: int
    slots_by_status: Mapping[str, int]
    unconfirmed_stops: int
    """Releasing slots whose stop cannot be confirmed."""
    queue_depth: int
    oldest_wait_ms: int | None
    warm_ratio: float | None
    time_to_running_p50_ms: int | None
    time_to_running_p95_ms: int | None
    pacing: EgressState | None
    """The pace of the pool's egress; None if the pool is not paced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSample:
    """The figures of a pool in one minute; null where no replica recorded them."""

    at: datetime
    arrivals: int
    queue_depth: int | None
    slots: Mapping[str, int] | None
    time_to_running_p50_ms: int | None
    time_to_running_p95_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One bot in one slot, once, as operators see it."""

    assignment_id: AssignmentId
    bot_id: BotId
    bot_status: BotStatus
    claimed_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    released_at: datetime | None
    failure_code: FailureCode | None
    failure_reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry:
    """A queued bot."""

    bot_id: BotId
    arrival: int
    """The arrival number, by which bots of one priority are served."""
    pool_name: PoolName
    tenant: str
    priority: int
    position: int
    """The position in the queue of the bot's tenant, from 1."""
    queued_at: datetime
    timeout_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryRow:
    """One change in the history of a bot or a slot."""

    at: datetime
    kind: str
    from_state: str | None
    to_state: str | None
    slot_name: str | None
    reason: str
    data: Mapping[str, Any] | None
    bot_id: BotId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedHistoryRow(HistoryRow):
    """A row in a page of history."""

    id: int
    assignment_id: AssignmentId | None = None
    more: bool
    """Whether the history goes on after this row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A row of history as the event stream sends it."""

    id: int
    transaction: int
    at: datetime
    kind: str
    pool_name: PoolName | None
    bot_id: BotId | None
    slot_id: SlotId | None
    slot_name: str | None
    from_state: str | None
    to_state: str | None
    reason: str
    correlation_id: str | None
    data: Mapping[str, Any] | None
    tenant_id: TenantId | None = None
    """The tenant of the bot; None for changes without a bot, which only operators see."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """An API key without its secret."""

    id: int
    name: str
    scope: str
    tenant_id: TenantId
    tenant: str
    """The tenant's name."""
    prefix: str
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    overlap_ends_at: datetime | None
    min_priority: int
    """The lowest priority number that requests with this key may have."""
    posts_per_minute: int | None = None
    """The tenant's quota of requests for bots; read with a key that authenticates a request."""

    @property
    def caller(self) -> Caller:
        """The caller of a request that was sent with this key."""
        return Caller(
            key_id=self.id,
            key_name=self.name,
            scope=self.scope,
            tenant_id=self.tenant_id,
            tenant=self.tenant,
            min_priority=self.min_priority,
            posts_per_minute=self.posts_per_minute,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """A tenant with its weight, its quotas (None: no limit) and its current bots."""

    id: TenantId
    name: str
    weight: int
    max_live: int | None
    max_queued: int | None
    max_booked: int | None
    posts_per_minute: int | None
    created_at: datetime
    live: int
    """Bots in slots."""
    queued: int
    """Bots in queues."""


class TenantChanges(TypedDict, total=False):
    """The new values of a tenant; an absent one stays as it is."""

    weight: int
    max_live: int | None
    max_queued: int | None
    max_booked: int | None
    posts_per_minute: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentView:
    """The bot and the slot of the assignment in an agent's token."""

    assignment_id: AssignmentId
    agent_container_id: ContainerId | None
    boot_id: str | None
    """The first boot of the agent; None if none was recorded."""
    slot_status: SlotStatus | None
    handing_over: bool
    """Whether a standby has the bot, and did not accept it yet."""
    run_id: AssignmentId | None
    """The run of the standby that got the bot; None if the container was started for it."""
    bot_data: Mapping[str, Any] = field(repr=False)
    leave_by: datetime | None
    bot: Bot
    join_in_ms: int | None = None
    """The time until a scheduled bot joins, negative once it is late; None if it has joined."""


class Fence(TypedDict):
    """The values that a fenced write compares; it changes nothing if the slot has changed."""

    slot_id: SlotId
    assignment_id: AssignmentId | None
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotChange:
    """A slot that a statement changed, as the log names it. The store's results extend it."""

    slot_id: SlotId
    slot_name: str
    container_id: ContainerId | None = None
    bot_id: BotId | None = None
    correlation_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """A container with our ownership label and no slot."""

    container_id: ContainerId
    newest_assignment_id: AssignmentId
    """The newest assignment of any slot when the container was still a stray."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotTransition(SlotChange):
    """A slot whose status a statement changed; `status` is its status before."""

    status: SlotStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class BotChange:
    """A bot without a slot that a statement changed, as the log names it."""

    bot_id: BotId
    pool_name: PoolName
    correlation_id: str


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
            in_call=self.bot_status is BotStatus.IN_CALL,
        )


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

    image: str
    """The image that the pool currently specifies."""
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


def expected_runs(
    slots: Iterable["BackendSlot | ObservedStandby"],
) -> dict[ContainerId, ExpectedRun]:
    """Return the runs that the containers of these slots should have."""
    return {
        slot.container_id: run
        for slot in slots
        if slot.container_id is not None and (run := slot.expected_run) is not None
    }


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
    status_unreliable_at: datetime | None
    now: datetime

    @property
    def expected_run(self) -> ExpectedRun:
        """The run that the standby's container should have."""
        return ExpectedRun(
            assignment_id=self.run_id, deployment_id=self.deployment_id, in_call=False
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """A bot that a standby has to accept, with what its agent needs."""

    slot_id: SlotId
    run_id: AssignmentId
    assignment_id: AssignmentId
    container_id: ContainerId
    pool_name: PoolName
    bot_id: BotId
    correlation_id: str
    meeting_url: str = field(repr=False)
    bot_display_name: str
    bot_data: Mapping[str, Any] = field(repr=False)
