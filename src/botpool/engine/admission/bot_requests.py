"""Wishes for bots as the statements of admission take them: many at once, column by column."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from botpool.domain.records import Bot, BotRequest, IdempotencyKey
from botpool.domain.states import BotStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionRequest:
    request: BotRequest
    key: IdempotencyKey | None

    @property
    def can_batch(self) -> bool:
        """May it be put into a queue together with others, so that all are done or none?

        Not with an idempotency key, where it may wait for the same request of somebody else. Not
        without the will to wait, where the whole transaction is undone if there is no slot.
        """
        return self.key is None and self.request.queue_timeout_ms > 0


def columns(wishes: Sequence[AdmissionRequest], *, idempotency_days: int) -> dict[str, Any]:
    """The parameters of a statement that admits these bots, all of one pool."""
    requests = [wish.request for wish in wishes]
    keys = [wish.key for wish in wishes]
    return {
        "pool_name": requests[0].pool_name,
        "bots": len(requests),
        "meeting_urls": [request.meeting_url for request in requests],
        "bot_display_names": [request.bot_display_name for request in requests],
        "bot_data": [json.dumps(request.bot_data) for request in requests],
        "priorities": [request.priority for request in requests],
        "queue_timeouts_ms": [request.queue_timeout_ms for request in requests],
        "correlation_ids": [request.correlation_id for request in requests],
        "api_key_ids": [key.api_key_id if key else None for key in keys],
        "idempotency_keys": [key.key if key else None for key in keys],
        "body_hashes": [key.body_hash if key else None for key in keys],
        "idempotency_days": idempotency_days,
    }


def to_new_bot(wish: AdmissionRequest, row: Mapping[str, Any]) -> Bot:
    """The bot that a wish became: what was asked for, and what the statement decided."""
    request = wish.request
    return Bot(
        id=row["bot_id"],
        correlation_id=request.correlation_id,
        pool_name=request.pool_name,
        meeting_url=request.meeting_url,
        bot_display_name=request.bot_display_name,
        status=BotStatus(row["status"]),
        priority=request.priority,
        slot_name=row["slot_name"],
        container_id=row["container_id"],
        attempts=row["attempts"],
        failure_reason=None,
        failure_code=None,
        created_at=row["created_at"],
        queued_at=row["queued_at"],
        assigned_at=row["assigned_at"],
        started_at=None,
        last_heartbeat_at=None,
        ended_at=None,
    )
