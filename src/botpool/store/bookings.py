"""Statements about scheduled bots and their bookings."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from botpool.domain import reasons
from botpool.domain.bookings import MAX_DAYS_AHEAD, Booking, OnTimeRecord
from botpool.domain.bots import BotChange
from botpool.domain.ids import BotId, PoolName, SlotId, TenantId
from botpool.domain.slots import SlotChange
from botpool.domain.states import BotStatus
from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class BookedBot:
    """The result of a booking. Without a bot, `refusal` says why nothing was created."""

    bot_id: BotId | None
    refusal: str | None = None
    reserved: bool
    starts_at: datetime
    ends_at: datetime
    within_hold: bool
    """Whether the slot must be held from now on."""
    is_due: bool
    start_s: float
    median_start_s: float
    reservable_slots: int
    created_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedBot(BookedBot):
    """A bot with a new join time."""

    former_status: BotStatus
    status: BotStatus
    correlation_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """The slots that a pool holds for bookings, after a match."""

    needed: int
    held: int
    created_ids: Sequence[SlotId]
    created_names: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BotAtRisk(BotChange):
    """A scheduled bot that will probably be late."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleWork:
    """What the schedule has to do."""

    due: Sequence[PoolName]
    """Pools with bots that are due."""
    booked: Sequence[PoolName]
    """Pools with open bookings or held slots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRecord:
    """The record of a pool from which a prediction is made; shares are null without a record."""

    now: datetime
    starts_in_time: float | None
    free_share: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSchedule:
    """The capacity of a pool for bookings, and the times that decide them."""

    now: datetime
    max_size: int
    reservable_slots: int
    hold_s: float
    start_s: float
    """How long before its join time a bot starts, without the time for its pace."""
    duration_s: float
    held: int


@query
def lock_bookings(*, pool_name: PoolName, tenant_id: TenantId) -> None:
    """Take a pool's booking lock, and that of a tenant with a quota, for the transaction."""


@query
def book_bot(
    *,
    pool_name: PoolName,
    tenant_id: TenantId,
    api_key_id: int,
    meeting_url: str,
    bot_display_name: str,
    bot_data: str,
    priority: int,
    queue_timeout_ms: int,
    correlation_id: str,
    traceparent: str | None,
    join_at: datetime,
    expected_duration_ms: int | None,
    require_reservation: bool,
    idempotency_key: str | None,
    body_hash: bytes | None,
    idempotency_days: int,
    max_scheduled: int,
    max_days: int = MAX_DAYS_AHEAD,
    reason: str = reasons.SCHEDULED,
) -> BookedBot | None:
    """Create a scheduled bot with its booking; None if its idempotency key is taken."""


@query
def move_bot(
    *,
    bot_id: BotId,
    join_at: datetime,
    max_days: int = MAX_DAYS_AHEAD,
    reason: str = reasons.MOVED,
) -> MovedBot | None:
    """Change a bot's join time and its booking; None if the bot has started or ended."""


@query
def change_waiting_bot(
    *, bot_id: BotId, priority: int | None, bot_display_name: str | None
) -> BotId | None:
    """Change the priority and the name of a bot without a slot; None if it has one."""


@query
def cancel_scheduled_bot(*, bot_id: BotId, reason: str) -> BotChange | None:
    """Cancel a scheduled bot that is not due yet."""


@query
def unreserve_booking(*, bot_id: BotId) -> None:
    """Take the reservation from a booking for which no slot can be held."""


@query
def record_prediction(*, bot_id: BotId, probability: float) -> None:
    """Store the predicted probability that a scheduled bot is on time."""


@query
def restore_hold(*, pool_name: PoolName, reason: str = reasons.HOLD) -> Hold | None:
    """Hold as many slots as a pool's next bookings need; None for a drained pool."""


@query
def open_hold(*, pool_name: PoolName, reason: str = reasons.POOL_GREW) -> list[SlotChange]:
    """Make slots assignable for the due bots with a reservation; returns the created ones."""


@query
def enqueue_due_bots(
    *, pool_name: PoolName, limit: int, reason: str = reasons.BOT_DUE
) -> list[BotChange]:
    """Put the due bots of a pool into its queue, still PENDING."""


@query
def settle_due_bots(*, pool_name: PoolName, reason: str = reasons.NO_FREE_SLOT) -> list[BotId]:
    """Make the due bots that got no slot QUEUED."""


@query
def find_schedule_work() -> ScheduleWork:
    """What the schedule has to do: one row."""


@query
def list_bookings(
    *, pool_name: PoolName, after: datetime, before: datetime, limit: int
) -> list[Booking]:
    """The open bookings of a pool that overlap a period, earliest first."""


@query
def get_pool_schedule(*, pool_name: PoolName) -> PoolSchedule | None:
    """The capacity of a pool for bookings, its hold and the clock."""


@query
def measure_pool_times(*, pool_name: PoolName) -> None:
    """Measure the times of a pool's last assignments, once a minute."""


@query
def refresh_starts(*, pool_name: PoolName) -> None:
    """Correct the starts of a pool's scheduled bots to its current times."""


@query
def mark_at_risk(
    *,
    pool_name: PoolName,
    late_reason: str = reasons.LATE_START,
    drained_reason: str = reasons.POOL_IS_DRAINED,
    overbooked_reason: str = reasons.OVERBOOKED,
) -> list[BotAtRisk]:
    """Mark the scheduled bots of a pool that will probably be late, once each."""


@query
def join_unreported_bots(*, reason: str = reasons.JOIN_TIME_REACHED) -> list[BotChange]:
    """Let scheduled bots whose agents never call join at their time."""


@query
def measure_starts_in_time(
    *, pool_name: PoolName, join_at: datetime, starts_at: datetime
) -> StartRecord:
    """The record of a pool's starts and free slots, for a prediction."""


@query
def measure_on_time(*, pool_name: PoolName) -> list[OnTimeRecord]:
    """Count the outcomes of a pool's last scheduled bots by predicted probability."""
