"""Statements about bots: reading them and the reports of their agents."""

from collections.abc import Sequence
from dataclasses import dataclass

from botpool.domain import reasons
from botpool.domain.ids import AssignmentId, BotId, ContainerId, PoolName
from botpool.domain.records import Bot
from botpool.domain.states import BotStatus
from botpool.store.statement import Statement, column, record_of


@dataclass(frozen=True, slots=True, kw_only=True)
class BotWithPosition:
    """A bot and its position in the queue; None unless the bot is queued."""

    bot: Bot
    position: int | None


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


def get_bot(bot_id: BotId) -> Statement[BotWithPosition]:
    """One bot, with its position while it waits."""
    return Statement(
        "get_bot",
        {"bot_id": bot_id},
        lambda row: BotWithPosition(bot=record_of(Bot)(row), position=row["position"]),
    )


def find_idempotent_bot(
    *, api_key_id: int, idempotency_key: str, idempotency_days: int
) -> Statement[IdempotentBot]:
    """Find the bot of an idempotency key."""
    parameters = {
        "api_key_id": api_key_id,
        "idempotency_key": idempotency_key,
        "idempotency_days": idempotency_days,
    }
    return Statement("find_idempotent_bot", parameters, record_of(IdempotentBot))


def list_bots(
    *,
    statuses: Sequence[BotStatus],
    pool_name: PoolName | None,
    search: str | None,
    before: BotId,
    since: BotId,
    limit: int,
) -> Statement[Bot]:
    """A page of bots with ids from `since` to below `before`, newest first."""
    parameters = {
        "statuses": list(statuses),
        "pool_name": pool_name,
        "search": search,
        "before": before,
        "since": since,
        "limit": limit,
    }
    return Statement("list_bots", parameters, record_of(Bot))


def find_bot_bounds() -> Statement[BotBounds]:
    """The lowest and the highest bot id: one row."""
    return Statement("find_bot_bounds", {}, record_of(BotBounds))


def find_bot_run(bot_id: BotId) -> Statement[BotRun]:
    """The last run of a bot, whose output its logs are."""
    return Statement("find_bot_run", {"bot_id": bot_id}, record_of(BotRun))


def report_status(
    *, assignment_id: AssignmentId, status: BotStatus, sources: Sequence[BotStatus]
) -> Statement[BotStatus]:
    """Apply a status that the bot's agent reports, from one of `sources`; returns the old one."""
    parameters = {
        "assignment_id": assignment_id,
        "status": status,
        "sources": list(sources),
        "reason": reasons.REPORTED_BY_AGENT,
    }
    return Statement("report_status", parameters, column("former_status", BotStatus))
