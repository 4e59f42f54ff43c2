"""Statements of the planner: what a pool's bots did."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from botpool.domain.ids import BotId, PoolName
from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPoolRow:
    """The settings of a pool that decide how its bots wait."""

    max_size: int
    warm: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedAssignment:
    """A bot with one of its assignments; without one if it never had a slot."""

    bot_id: BotId
    created_at: datetime
    priority: int
    queue_timeout_ms: int
    started_at: datetime | None
    assigned_at: datetime | None
    running_at: datetime | None
    released_at: datetime | None
    slot_name: str | None
    warm: bool | None
    hot: bool
    now: datetime


@query
def find_planned_pool(*, pool_name: PoolName) -> PlannedPoolRow | None:
    """Read the settings that a replay depends on."""


@query
def list_recorded_bots(
    *, pool_name: PoolName, replay_s: float, after: BotId, limit: int
) -> list[RecordedAssignment]:
    """A page of a pool's bots since `replay_s` ago, each with its assignments, by arrival."""
