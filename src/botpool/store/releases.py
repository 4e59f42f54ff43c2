"""Statements about the end of bots and the release of their slots."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Unpack

from botpool.domain import reasons
from botpool.domain.fenced_slots import Fence, ReleasableSlot
from botpool.domain.ids import AssignmentId, BotId, PoolName, SlotId, TenantId
from botpool.domain.slots import SlotChange
from botpool.domain.states import BotStatus, EndReason, FailureCode, SlotStatus
from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedBot(SlotChange):
    """A slot whose bot ended; `slot_status` and `bot_status` are the statuses before."""

    pool_name: PoolName
    slot_status: SlotStatus
    assignment_id: AssignmentId
    bot_status: BotStatus
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FreedSlot(SlotChange):
    """A slot that no longer has a bot; `bot_id` is the bot that it had."""

    bot_status: BotStatus
    others_wait: bool
    """Whether other slots of the backend wait at the image gate."""
    occupied_s: float
    releasing_s: float
    tenant_id: TenantId
    tenant_has_quota: bool
    """Whether the release made room in the quota of its tenant."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnconfirmedStop:
    """A releasing slot after a record of why its stop cannot be confirmed."""

    version: int
    since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequeuedBot:
    """A bot that is queued again after a failed deployment or an infrastructure fault."""

    bot_id: BotId
    infrastructure_fault: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InterruptedBot(SlotChange):
    """A slot whose run the infrastructure ended; `bot_status` is the bot's status before."""

    bot_status: BotStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class BotWithoutAttempts:
    """A bot that failed because its last deployment failed."""

    bot_id: BotId
    failure_code: FailureCode


@query
def end_bots(
    *,
    assignment_ids: Sequence[AssignmentId],
    versions: Sequence[int | None],
    statuses: Sequence[BotStatus],
    failure_codes: Sequence[FailureCode | None],
    failure_reasons: Sequence[str | None],
    end_reasons: Sequence[EndReason | None],
    reasons: Sequence[str],
    slot_errors: Sequence[str | None],
    hold_leases: Sequence[bool],
    silent_since: Sequence[datetime | None],
) -> list[EndedBot]:
    """End bots that are in slots, and start the release of their slots.

    `hold_leases`: the caller holds the slot's lease, and the query returns the lease.
    `slot_errors`: the error that the slot shows until its next bot.
    `silent_since`: the bot ends only if no heartbeat arrived at that time or later.
    """


@query
def free_slots(
    *,
    pool_name: PoolName,
    match_follows: bool,
    slot_ids: Sequence[SlotId],
    assignment_ids: Sequence[AssignmentId | None],
    versions: Sequence[int],
    statuses: Sequence[SlotStatus],
    error_messages: Sequence[str | None],
    containers_gone: Sequence[bool],
    reasons: Sequence[str],
    abandoned: Sequence[bool],
) -> list[FreedSlot]:
    """Free slots of one pool whose stops are confirmed, or which an operator releases by force.

    Without a match in the same transaction, the query frees only slots after which a match would
    change nothing.
    """


@query
def requeue_bots(
    *,
    bot_ids: Sequence[BotId | None],
    assignment_ids: Sequence[AssignmentId | None],
    reasons: Sequence[str | None],
    max_attempts: int,
    max_infrastructure_retries: int,
) -> list[RequeuedBot]:
    """Queue bots again whose deployments failed, while attempts remain; returns these bots."""


@query
def retry_bot_after_fault(
    *,
    reason: str,
    failure_code: FailureCode = FailureCode.CONTAINER_EXITED,
    sources: Sequence[BotStatus],
    **fence: Unpack[Fence],
) -> InterruptedBot | None:
    """Start the release of a busy slot whose run the infrastructure ended before the call.

    The bot is retried after the confirmed stop, or fails with `failure_code`.
    """


@query
def fail_bots_without_attempts(
    *,
    bot_ids: Sequence[BotId | None],
    assignment_ids: Sequence[AssignmentId | None],
    reasons: Sequence[str | None],
) -> list[BotWithoutAttempts]:
    """Fail the bots whose last deployment failed and that `requeue_bots` did not queue."""


@query
def record_unconfirmed_stop(
    *,
    reason: str | None,
    node: str | None = None,
    since: datetime | None = None,
    answers_reason: str = reasons.STOP_CAN_BE_CONFIRMED,
    **fence: Unpack[Fence],
) -> UnconfirmedStop | None:
    """Record why a stop cannot be confirmed, or that it can again (no reason)."""


@query
def find_releasable_slot(*, slot_id: SlotId) -> ReleasableSlot | None:
    """Read a releasing slot as its release reads it; None in any other status."""


@query
def clear_stop(*, limit_s: float, **fence: Unpack[Fence]) -> int | None:
    """Discard a stop that an active deployment may undo, so that the reconciler repeats it."""


@query
def retry_releases_now() -> list[SlotId]:
    """Make the next steps of all releasing slots due now; returns these slots."""
