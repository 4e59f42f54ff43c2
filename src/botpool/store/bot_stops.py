"""Statements that stop bots at the request of a user or of a shutdown."""

from collections.abc import Sequence
from dataclasses import dataclass

from botpool.domain.bots import BotChange
from botpool.domain.communication import LeaveBy
from botpool.domain.ids import AssignmentId, BotId, PoolName
from botpool.domain.states import BotStatus
from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class LeavingBot:
    """A bot in a busy slot; the statuses are None if an earlier request to leave stands."""

    bot_id: BotId
    pool_name: PoolName
    correlation_id: str | None
    former_status: BotStatus | None
    status: BotStatus | None
    leave: LeaveBy


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBot:
    """A bot in the queue, or with an assignment in a slot."""

    bot_id: BotId
    assignment_id: AssignmentId | None


@query
def cancel_queued_bot(*, bot_id: BotId, reason: str) -> BotChange | None:
    """Cancel a bot that is in the queue."""


@query
def cancel_bot_retry(*, bot_id: BotId, reason: str) -> BotChange | None:
    """Cancel a bot whose failed deployment is being released, so that it is not queued again."""


@query
def ask_bot_to_leave(
    *,
    bot_id: BotId,
    reason: str,
    running: Sequence[BotStatus],
    sources: Sequence[BotStatus],
    grace_s: float,
) -> LeavingBot | None:
    """Ask a running bot to leave, and stop it when the grace is over."""


@query
def list_live_bots(*, queued: bool) -> list[LiveBot]:
    """List the bots in the queue, or the bots in slots."""
