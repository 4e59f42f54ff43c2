"""Statements about standbys: runs without a bot, their polls, and the hand-over of bots to them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Unpack

from botpool.domain import reasons
from botpool.domain.agent_views import Handover
from botpool.domain.fenced_slots import Fence, ObservedStandby
from botpool.domain.ids import AssignmentId, ContainerId, DeploymentId, PoolName, SlotId
from botpool.domain.slots import SlotChange
from botpool.domain.states import BotStatus, SlotPhase, SlotStatus, Standby
from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmPoolRow:
    """The figures of a pool, as `WarmPool` has them; `warm` as it is stored."""

    pool_name: PoolName
    backend: str
    warm: Mapping[str, Any]
    max_size: int
    drained: bool
    bots_wait: bool
    size: int
    fresh: int
    fresh_ready: int
    outdated: int
    stopping: int
    forced: int
    failing: int
    free: int
    prepared: int
    unpulled: int
    preparing: int
    unprepared: int
    idle: int
    expired: int
    refilled_until: datetime | None
    ready_from: Sequence[datetime]
    starts_at: Sequence[datetime]
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class PolledSlot:
    """The slot of a standby that polls, as it was before the poll."""

    slot_id: SlotId
    backend: str
    status: SlotStatus
    phase: SlotPhase | None
    standby: Standby | None
    assignment_id: AssignmentId | None
    boot_id: str | None
    """The boot that accepted the bot."""
    bot_status: BotStatus | None
    leave_by: datetime | None
    finishing_at: datetime | None
    others_wait: bool
    """Whether other slots of the backend wait at the image gate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedBot(SlotChange):
    """A bot that a standby accepted."""

    backend: str
    run_id: AssignmentId
    deployment_id: DeploymentId | None
    pool_name: PoolName
    deploying_s: float


@query
def list_warm_pools(*, backoff_s: float, image_known_s: float) -> list[WarmPoolRow]:
    """Read the pools that keep slots ready, remove unused ones or still have standbys."""


@query
def start_standbys(
    *,
    pool_name: PoolName,
    standbys: int,
    backoff_s: float,
    reason: str = reasons.STANDBY_WANTED,
) -> list[SlotChange]:
    """Begin standbys in idle slots of a pool, whose lock the caller holds."""


@query
def add_slots(
    *, pool_name: PoolName, slots: int, reason: str = reasons.STANDBY_WANTED
) -> list[SlotChange]:
    """Create slots for standbys and idle floors, within the pool's maximum."""


@query
def prepare_slots(*, pool_name: PoolName, slots: int, backoff_s: float) -> list[SlotId]:
    """Let the reconciler create the containers of idle slots."""


@query
def record_prepared_slot(
    *,
    slot_id: SlotId,
    version: int,
    container_id: ContainerId,
    image_host: str,
    image: str,
    limits: str,
    reason: str = reasons.PREPARED,
) -> SlotChange | None:
    """Store the container of a prepared slot; None if the slot has changed."""


@query
def remove_idle_slots(
    *, pool_name: PoolName, slots: int, reason: str = reasons.UNUSED
) -> list[SlotChange]:
    """Begin the removal of idle slots that had no bot for too long."""


@query
def use_refill(*, pool_name: PoolName, until: datetime) -> None:
    """Record up to which time the rate of a pool's refill is used up."""


@query
def stop_standbys(
    *, pool_name: PoolName, surplus: int, reason: str = reasons.STANDBY_NOT_WANTED
) -> list[SlotChange]:
    """Begin the stop of standbys that must not stay, and of so many others."""


@query
def end_standby(
    *,
    slot_id: SlotId,
    version: int,
    container_gone: bool,
    reason: str = reasons.STANDBY_ENDED,
) -> SlotChange | None:
    """End a standby whose stop is confirmed."""


@query
def list_observed_standbys(
    *, backend: str, container_id: ContainerId | None = None
) -> list[ObservedStandby]:
    """List the standbys whose containers should run or should have stopped."""


@query
def open_poll(
    *, slot_id: SlotId, run_id: AssignmentId, owner: str, image_fresh_s: float
) -> PolledSlot | None:
    """Record the open poll of a standby; None if the run is not the slot's current one."""


@query
def close_polls(
    *,
    owner: str | None,
    slot_ids: Sequence[SlotId] = (),
    run_ids: Sequence[AssignmentId] = (),
    alive_s: float,
    lost_s: float,
) -> list[SlotId]:
    """Record that polls ended; without an owner, those of replicas that are not alive."""


@query
def renew_polls(*, owner: str, slot_ids: Sequence[SlotId], run_ids: Sequence[AssignmentId]) -> None:
    """Record the open polls of a replica again where another one cleared them."""


@query
def list_handovers(*, owner: str, slot_ids: Sequence[SlotId] | None) -> list[Handover]:
    """Read the bots for the polls that a replica holds, or for some of them."""


@query
def notify_owner(*, channel: str, slots: str) -> None:
    """Tell the replica that holds polls that their standbys have bots."""


@query
def accept_assignments(
    *,
    assignment_ids: Sequence[AssignmentId],
    run_ids: Sequence[AssignmentId],
    container_ids: Sequence[ContainerId],
    boot_ids: Sequence[str | None],
    max_duration_s: float,
    reason: str = reasons.ACCEPTED_BY_STANDBY,
) -> list[AcceptedBot]:
    """Accept bots; without those whose hand-over is over, or that were accepted before."""


@query
def give_up_handover(
    *, reason: str, holds_lease: bool = False, **fence: Unpack[Fence]
) -> SlotChange | None:
    """Give up a hand-over and begin the stop of its standby."""


@query
def restart_cold(
    *,
    container_gone: bool,
    reason: str = reasons.COLD_AFTER_HANDOVER,
    **fence: Unpack[Fence],
) -> SlotChange | None:
    """Start a bot cold in its slot; None if the slot has changed or the bot has ended."""
