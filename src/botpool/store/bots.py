"""Statements about bots: reading them and the reports of their agents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from botpool.domain import reasons
from botpool.domain.bots import Bot
from botpool.domain.ids import AssignmentId, BotId, ContainerId, PoolName, TenantId
from botpool.domain.states import BotStatus, EndReason
from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class BotWithPosition:
    """A bot, its position in the queue (None unless queued) and what its heartbeats said last."""

    bot: Bot
    position: int | None
    progress: Mapping[str, Any] | None
    last_media_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BotInContainer(Bot):
    """A bot that ran in a container or slot, and its last assignment there."""

    assignment_there: AssignmentId


@dataclass(frozen=True, slots=True, kw_only=True)
class IdempotentBot:
    """The bot and the request body of an idempotency key."""

    bot_id: BotId
    body_hash: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BotBounds:
    """The lowest and the highest bot id; None in an empty table."""

    oldest: BotId | None
    newest: BotId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BotRun:
    """The last run of a bot; it has no assignment while the bot has had no slot."""

    assignment_id: AssignmentId | None
    container_id: ContainerId | None
    backend: str


@query
def get_bot(*, bot_id: BotId, tenant_id: TenantId | None = None) -> BotWithPosition | None:
    """One bot, with its position while it waits; None for a bot of another tenant."""


@query
def find_bot_tenant(*, bot_id: BotId) -> TenantId | None:
    """The tenant that owns a bot."""


@query
def find_idempotent_bot(
    *, api_key_id: int, idempotency_key: str, idempotency_days: int
) -> IdempotentBot | None:
    """Find the bot of an idempotency key."""


@query
def list_bots(
    *,
    statuses: Sequence[BotStatus],
    pool_name: PoolName | None,
    tenant_id: TenantId | None,
    search: str | None,
    before: BotId,
    since: BotId,
    limit: int,
) -> list[Bot]:
    """A page of bots with ids from `since` to below `before`, newest first."""


@query
def list_bots_of_tenant(
    *,
    statuses: Sequence[BotStatus],
    pool_name: PoolName | None,
    tenant_id: TenantId,
    search: str | None,
    before: BotId,
    since: BotId,
    limit: int,
) -> list[Bot]:
    """A page of the bots of a tenant other than the default one, newest first."""


@query
def list_bots_in(
    *,
    container_id: ContainerId | None,
    slot_name: str | None,
    statuses: Sequence[BotStatus],
    pool_name: PoolName | None,
    tenant_id: TenantId | None,
    search: str | None,
    before: AssignmentId,
    limit: int,
) -> list[BotInContainer]:
    """A page of the bots that ran in a container or slot before an assignment, newest first."""


@query
def find_bot_bounds() -> BotBounds:
    """The lowest and the highest bot id: one row."""


@query
def find_bot_run(*, bot_id: BotId) -> BotRun | None:
    """The last run of a bot, whose output its logs are."""


@query
def report_status(
    *,
    assignment_id: AssignmentId,
    status: BotStatus,
    sources: Sequence[BotStatus],
    end_reason: EndReason | None = None,
    reason: str = reasons.REPORTED_BY_AGENT,
) -> BotStatus | None:
    """Apply a status that the bot's agent reports, from one of `sources`; returns the old one."""
