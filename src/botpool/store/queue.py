"""Statements about the queue: admission, matching and expiry."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TypedDict, Unpack

from botpool.domain import reasons
from botpool.domain.bots import AdmissionRequest, BotChange, QueueEntry
from botpool.domain.ids import AssignmentId, BotId, ContainerId, PoolName, TenantId
from botpool.domain.slots import SlotChange
from botpool.domain.states import BotStatus
from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimedSlot(SlotChange):
    """An idle slot with a new bot; `n` is the number of its request in the batch, from 1."""

    n: int
    bot_id: BotId
    assignment_id: AssignmentId
    standby_run_id: AssignmentId | None
    """The run of the standby that gets the bot; None if a container starts for the bot."""
    poll_owner: str | None
    """The replica that holds the standby's poll."""
    status: BotStatus
    attempts: int
    created_at: datetime
    queued_at: datetime | None
    assigned_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueuedBot:
    """A new bot in the queue; `n` is the number of its request in the batch, from 1.

    Without a bot: the queue is full.
    """

    n: int
    bot_id: BotId | None
    begins_turn: bool
    """Whether its tenant begins to wait beside other tenants, and so needs a turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledBot:
    """A new bot after the match: in a slot, or queued at `position` (None beyond a thousand).

    With `exceeded_quota`, the bot was deleted again: its tenant's queue is full.
    """

    bot_id: BotId
    status: BotStatus
    slot_name: str | None
    container_id: ContainerId | None
    attempts: int
    created_at: datetime
    queued_at: datetime | None
    assigned_at: datetime | None
    position: int | None
    exceeded_quota: int | None
    queued_reason: str | None
    """Why the bot waits; None if it has a slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchedSlot(SlotChange):
    """An idle slot that a queued bot got."""

    pool_name: PoolName
    standby_run_id: AssignmentId | None
    """The run of the standby that gets the bot; None if a container starts for the bot."""
    poll_owner: str | None
    """The replica that holds the standby's poll."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueWork:
    """What the queue poll has to do."""

    expired: bool
    """Queue rows are past their deadline."""
    servable: Sequence[PoolName]
    """Pools with a queue and with an idle slot or room to grow."""
    shared: bool
    """Tenants share the pools: see `Matcher`."""
    contended: Sequence[PoolName]
    """Pools in which several tenants wait, and whose turns were not refreshed for a second."""
    uncounted: Sequence[TenantId]
    """Tenants with a quota whose live bots were never counted."""
    gates: Sequence[str]
    """Backends with slots that wait for an image or for their start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedBots:
    """How many bots of one tenant and priority wait in a pool."""

    tenant: str
    priority: int
    bots: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingTenant:
    """How many bots of a tenant wait in a pool."""

    tenant: str
    weight: int
    bots: int


class NewBots(TypedDict):
    """New bots of one pool as parameters: one list per column."""

    pool_name: PoolName
    meeting_urls: Sequence[str]
    bot_display_names: Sequence[str]
    bot_data: Sequence[str]
    priorities: Sequence[int]
    queue_timeouts_ms: Sequence[int]
    correlation_ids: Sequence[str]
    traceparents: Sequence[str | None]
    tenant_ids: Sequence[TenantId]
    api_key_ids: Sequence[int]
    idempotency_keys: Sequence[str | None]
    body_hashes: Sequence[bytes | None]


def new_bots(requests: Sequence[AdmissionRequest]) -> NewBots:
    """Return the requests of one pool as parameters."""
    bots = [request.bot for request in requests]
    keys = [request.key for request in requests]
    return {
        "pool_name": bots[0].pool_name,
        "meeting_urls": [bot.meeting_url for bot in bots],
        "bot_display_names": [bot.bot_display_name for bot in bots],
        "bot_data": [json.dumps(bot.bot_data) for bot in bots],
        "priorities": [bot.priority for bot in bots],
        "queue_timeouts_ms": [bot.queue_timeout_ms for bot in bots],
        "correlation_ids": [bot.correlation_id for bot in bots],
        "traceparents": [bot.traceparent for bot in bots],
        "tenant_ids": [bot.caller.tenant_id for bot in bots],
        "api_key_ids": [bot.caller.key_id for bot in bots],
        "idempotency_keys": [key.key if key else None for key in keys],
        "body_hashes": [key.body_hash if key else None for key in keys],
    }


@query
def admit_to_idle_slots(
    *,
    idempotency_days: int,
    accepted_reason: str = reasons.ACCEPTED,
    claimed_reason: str = reasons.IDLE_SLOT,
    assigned_reason: str = reasons.ASSIGNED,
    **new_bots: Unpack[NewBots],
) -> list[ClaimedSlot]:
    """Admit bots of one pool to its idle slots, if no bot of their tenant waits there."""


@query
def enqueue_bots(
    *,
    idempotency_days: int,
    max_length: int,
    match_follows: bool,
    accepted_reason: str = reasons.ACCEPTED,
    **new_bots: Unpack[NewBots],
) -> list[EnqueuedBot]:
    """Put new bots of one pool into its queue, still PENDING."""


@query
def settle_new_bots(
    *,
    reason: str = reasons.NO_FREE_SLOT,
    quota_reason: str = reasons.TENANT_AT_QUOTA,
    paced_reason: str = reasons.PACED,
) -> list[SettledBot]:
    """Make the bots that enqueue_bots wrote in this transaction QUEUED unless they got a slot."""


@query
def match_queue(
    *,
    pool_name: PoolName,
    new_slot_reason: str = reasons.NEW_SLOT,
    freed_slot_reason: str = reasons.SLOT_BECAME_FREE,
    assigned_reason: str = reasons.ASSIGNED,
    probe_reason: str = reasons.BREAKER_PROBES,
) -> list[MatchedSlot]:
    """Assign the heads of a pool's queue to its idle slots, unless tenants share the pool."""


@query
def match_shared_queue(
    *,
    pool_name: PoolName,
    reserved: bool = False,
    new_slot_reason: str = reasons.NEW_SLOT,
    freed_slot_reason: str = reasons.SLOT_BECAME_FREE,
    assigned_reason: str = reasons.ASSIGNED,
    probe_reason: str = reasons.BREAKER_PROBES,
) -> list[MatchedSlot]:
    """Assign queued bots to the idle slots of a pool by the turns and quotas of their tenants.

    `reserved`: only bots with a reservation, which also get the held slots.
    """


@query
def expire_queue(
    *,
    limit: int,
    reason: str = reasons.QUEUE_TIMEOUT,
    failure_reason: str = reasons.QUEUE_TIMEOUT_FAILURE,
) -> list[BotChange]:
    """Fail the bots whose time in the queue is over."""


@query
def find_queue_work() -> QueueWork:
    """What the queue poll has to do: one row."""


@query
def list_queue(
    *,
    pool_name: PoolName | None,
    tenant_id: TenantId | None,
    after_pool: str,
    after_priority: int,
    after_arrival: int,
    limit: int,
) -> list[QueueEntry]:
    """A page of queued bots in the order of service within each pool."""


@query
def measure_queue(*, pool_name: PoolName) -> list[QueuedBots]:
    """Count the queued bots of a pool by tenant and priority."""


@query
def measure_waiting_tenants(*, pool_name: PoolName) -> list[WaitingTenant]:
    """Count the queued bots of each tenant in a pool; no rows if one tenant waits."""
