"""The models of responses for operators and monitoring."""

from datetime import datetime
from typing import Annotated

from pydantic import Field

from botpool.api.schemas import Event, Model, NextCursor, PoolNameField
from botpool.domain.pacing import Breaker
from botpool.domain.states import BotStatus, FailureCode, SlotPhase, SlotStatus, Standby


class Slot(Model):
    id: int
    name: str
    pool_name: PoolNameField
    status: SlotStatus
    phase: Annotated[SlotPhase | None, Field(description="Set while deploying.")]
    assigned_bot_id: int | None
    container_id: str | None
    image: str
    last_assigned_at: datetime | None
    last_released_at: datetime | None
    last_used_at: datetime | None
    resets: Annotated[
        int, Field(alias="recoveryAttempts", description="Failed resets since the slot was busy.")
    ]
    skipped_recoveries: int
    error_message: str | None
    unconfirmed_reason: Annotated[
        str | None,
        Field(
            description="Why the stop of the slot's container cannot be confirmed. Until it can, "
            "the slot stays `releasing` and takes no bot."
        ),
    ]
    unconfirmed_node: Annotated[
        str | None, Field(description="The unreachable node, if that is the reason.")
    ]
    unconfirmed_since: Annotated[
        datetime | None, Field(description="Since when the node is unreachable.")
    ]
    standby: Annotated[
        Standby | None,
        Field(
            description="The state of a container that runs without a bot: `starting`, `ready` "
            "(it waits for a bot: the slot is hot) or `stopping`. Null for other slots."
        ),
    ]
    standby_since: Annotated[
        datetime | None, Field(description="Since when the container waits for a bot.")
    ]
    cordoned: bool
    created_at: datetime


class Slots(Model):
    slots: list[Slot]
    next_cursor: NextCursor = None


class Assignment(Model):
    """One bot in one slot, once."""

    assignment_id: int
    bot_id: int
    bot_status: BotStatus
    claimed_at: datetime
    started_at: datetime | None
    ended_at: datetime | None
    released_at: datetime | None
    failure_code: FailureCode | None
    failure_reason: str | None


class Assignments(Model):
    assignments: list[Assignment]
    next_cursor: NextCursor = None


class SlotEvent(Event):
    bot_id: int | None


class SlotHistory(Model):
    events: list[SlotEvent]
    next_cursor: NextCursor = None


class SlotResponse(Model):
    slot: Slot


class RecoveryCounts(Model):
    """The slots that a recovery pass handled."""

    recovered: int
    requeued: int
    failed: int
    deleted: int
    skipped: int


class CleanupCounts(Model):
    """The rows and containers that a cleanup handled."""

    released: int
    expired: int
    deleted_containers: int
    pruned_rows: int


class BackendHealth(Model):
    ok: bool
    detail: str


class Pacing(Model):
    egress: str
    per_minute: Annotated[float, Field(description="Starts per minute that are allowed now.")]
    configured_per_minute: float
    breaker: Annotated[
        Breaker,
        Field(
            description="The circuit breaker: `open` starts no bots, `half_open` waits for the "
            "outcome of one bot, the probe."
        ),
    ]
    probe_at: Annotated[
        datetime | None, Field(description="When the next probe may start; null if closed.")
    ]
    blocks_in_a_row: int


class WarmFloors(Model):
    hot_target: Annotated[int, Field(description="How many slots should be hot now.")]
    hot_ready: Annotated[int, Field(description="Hot slots: their container waits for a bot.")]
    hot_starting: int
    idle_target: Annotated[
        int,
        Field(description="How many idle slots should have a container and their image on disk."),
    ]
    idle_ready: Annotated[int, Field(description="Slots that have both, hot ones included.")]
    reason: Annotated[
        str, Field(description="Why the targets are what they are: floor, window, scheduled bots.")
    ]
    problem: Annotated[
        str | None, Field(description="Why a target is not reached; null if Botpool refills it.")
    ]


class Pool(Model):
    pool_name: PoolNameField
    backend: str
    backend_health: BackendHealth
    image: str
    configured_image: Annotated[
        str | None,
        Field(
            description="The image in the settings, if a promoted rollout replaced it; null if not."
        ),
    ]
    size: Annotated[int, Field(description="Slots that exist.")]
    max_size: int
    slots_by_status: dict[SlotStatus, int]
    unconfirmed_stops: Annotated[
        int, Field(description="Releasing slots whose stop cannot be confirmed.")
    ]
    queue_depth: int
    oldest_wait_ms: int | None
    warm_hit_ratio: Annotated[
        float | None,
        Field(description="Share of the last 1,000 bots whose slot already had a container."),
    ]
    time_to_running_p50_ms: Annotated[
        int | None, Field(description="From assignment to a running container.")
    ]
    time_to_running_p95_ms: int | None
    drained: Annotated[bool, Field(description="The pool refuses new bots.")]
    removed: Annotated[
        bool,
        Field(description="The settings do not contain the pool any more: it refuses new bots."),
    ]
    pacing: Annotated[
        Pacing | None, Field(description="The pace of starts; null if the pool is not paced.")
    ]
    warm: Annotated[
        WarmFloors | None,
        Field(description="The slots that the pool keeps ready; null if it keeps none."),
    ]


class Pools(Model):
    pools: list[Pool]


class PoolSample(Model):
    at: datetime
    arrivals: int
    queue_depth: Annotated[
        int | None, Field(description="Maximum in that minute; null if no replica ran.")
    ]
    slots: Annotated[
        dict[SlotStatus, int] | None, Field(description="By status, at the last sample.")
    ]
    time_to_running_p50_ms: Annotated[
        int | None, Field(description="For bots that started to run in that minute.")
    ]
    time_to_running_p95_ms: int | None


class PlanPolicy(Model):
    name: str
    max_size: int
    on_time_share: float
    p50_ms: Annotated[int, Field(description="From the request to a running container.")]
    p95_ms: int
    p99_ms: int
    longest_queue: Annotated[int | None, Field(description="Null for the record itself.")]
    idle_slot_hours_per_day: float | None
    hot_slot_hours_per_day: float | None
    meets_goal: bool
    settings: Annotated[str | None, Field(description="The policy as settings to paste.")]


class Plan(Model):
    pool_name: PoolNameField
    since_at: datetime
    until_at: datetime
    bots: int
    slo: float
    within_ms: int
    policies: list[PlanPolicy]
    recommended: Annotated[
        str | None,
        Field(description="The policy that reaches the goal with the fewest hot slot hours."),
    ]
    advice: str


class PlanResponse(Model):
    plan: Plan


class Activity(Model):
    minutes: list[PoolSample]


class PoolResponse(Model):
    pool: Pool


class Ready(Model):
    ready: bool
    problem: str | None
    listening: Annotated[
        bool, Field(description="False if LISTEN does not work; the replica then polls.")
    ]
    backends: dict[str, BackendHealth]
    paused_egresses: Annotated[
        dict[str, datetime],
        Field(
            description="Egresses whose circuit breaker is not closed, because bots were blocked, "
            "and when their next bot may start."
        ),
    ]


class ScheduleSlice(Model):
    """The most bookings at one time in ten minutes."""

    starts_at: Annotated[datetime, Field(alias="from")]
    ends_at: Annotated[datetime, Field(alias="to")]
    booked: Annotated[int, Field(description="With and without a reservation.")]
    reserved: int


class Booking(Model):
    """A scheduled bot and the period for which it needs a slot."""

    bot_id: int
    status: BotStatus
    reserved: bool
    starts_at: Annotated[datetime, Field(description="When its deployment starts.")]
    join_at: datetime
    ends_at: Annotated[datetime, Field(description="When its slot is expected to be free.")]
    on_time_probability: float | None
    at_risk: str | None


class OnTimeScore(Model):
    """Outcomes of scheduled bots whose predicted probability lies in one tenth."""

    bucket: Annotated[int, Field(ge=0, le=9, description="9: from 0.9 to 1.")]
    reserved: bool
    bots: int
    on_time: int
    predicted: Annotated[float, Field(description="The mean prediction.")]
    brier: Annotated[
        float, Field(description="The mean squared difference to the outcome; 0 is perfect.")
    ]


class Schedule(Model):
    now: datetime
    max_size: int
    reservable_slots: Annotated[int, Field(description="How many bookings may overlap.")]
    held: Annotated[int, Field(description="Idle slots that are held for bookings now.")]
    hold_s: float
    slices: list[ScheduleSlice]
    bookings: Annotated[list[Booking], Field(description="At most 500, earliest first.")]
    score: Annotated[
        list[OnTimeScore],
        Field(description="Predicted against actual, of the last 1,000 scheduled bots."),
    ]
