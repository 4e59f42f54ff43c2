"""Records of slots and of the work on them."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """A slot as it was at the time of the response."""

    id: int
    name: str
    platform: str
    status: str
    phase: str | None
    assigned_bot_id: int | None
    container_id: str | None
    image: str
    last_assigned_at: datetime | None
    last_released_at: datetime | None
    last_used_at: datetime | None
    recovery_attempts: int
    skipped_recoveries: int
    error_message: str | None
    cordoned: bool
    created_at: datetime
    unconfirmed_reason: str | None
    """Why the stop of the container cannot be confirmed; the slot takes no bot until it can."""
    unconfirmed_node: str | None
    unconfirmed_since: datetime | None
    standby: str | None
    """The container that runs without a bot: starting, ready or stopping."""
    standby_since: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """One bot in a slot, once."""

    assignment_id: int
    bot_id: int
    bot_status: str
    claimed_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    released_at: datetime | None
    failure_code: str | None
    failure_reason: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryResult:
    """Counts of the slots that a recovery pass handled."""

    recovered: int
    requeued: int
    failed: int
    deleted: int
    skipped: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupResult:
    """Counts of the rows and containers that a cleanup handled."""

    released: int
    expired: int
    deleted_containers: int
    pruned_rows: int
