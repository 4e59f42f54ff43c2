"""Slots and assignments, as operators and the log see them."""

from dataclasses import dataclass
from datetime import datetime

from botpool.domain.ids import AssignmentId, BotId, ContainerId, PoolName, SlotId
from botpool.domain.states import BotStatus, FailureCode, SlotPhase, SlotStatus, Standby


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
    standby: Standby | None
    """The run without a bot, if the slot has one; during a hand-over it already has its bot."""
    standby_since: datetime | None
    """Since when the container of the standby waits for a bot."""
    cordoned: bool
    created_at: datetime


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
