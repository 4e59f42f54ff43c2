"""Bots, requests for bots and the queue, as plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from botpool.domain.callers import Caller
from botpool.domain.ids import BotId, ContainerId, PoolName
from botpool.domain.states import BotStatus, EndReason, FailureCode


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
    traceparent: str | None = None
    """The caller's trace and span (W3C); None without them."""
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
class BotChange:
    """A bot without a slot that a statement changed, as the log names it."""

    bot_id: BotId
    pool_name: PoolName
    correlation_id: str
