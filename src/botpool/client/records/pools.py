"""Records of pools, their plans and their schedules."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from botpool.client.records.reading import FROM, TO
from botpool.domain.states import WITH_BOT


@dataclass(frozen=True, slots=True, kw_only=True)
class BackendHealth:
    """Whether a backend answers; `detail` is its problem."""

    ok: bool
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    """The pace of a pool's starts, and the circuit breaker of its egress."""

    egress: str
    per_minute: float
    configured_per_minute: float
    breaker: str
    probe_at: datetime | None
    blocks_in_a_row: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmFloors:
    """How many slots a pool should have ready, how many it has, and why."""

    hot_target: int
    hot_ready: int
    hot_starting: int
    idle_target: int
    idle_ready: int
    reason: str
    problem: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A pool with its figures."""

    platform: str
    backend: str
    backend_health: BackendHealth
    image: str
    configured_image: str | None = None
    """The image in the settings, if a promoted rollout replaced it."""
    size: int
    max_size: int
    slots_by_status: Mapping[str, int]
    queue_depth: int
    oldest_wait_ms: int | None
    warm_hit_ratio: float | None
    time_to_running_p50_ms: int | None
    time_to_running_p95_ms: int | None
    drained: bool
    removed: bool = False
    """The settings do not contain the pool any more: it refuses new bots."""
    pacing: Pacing | None = None
    warm: WarmFloors | None = None
    """The slots that the pool keeps ready; None if it keeps none."""
    unconfirmed_stops: int
    """Releasing slots whose stop cannot be confirmed."""

    @property
    def is_paused(self) -> bool:
        """Whether the pool starts no bots, or one, because bots were blocked."""
        return self.pacing is not None and self.pacing.breaker != "closed"

    @property
    def slots_with_bot(self) -> int:
        """How many slots have a bot."""
        return sum(self.slots_by_status.get(status, 0) for status in WITH_BOT)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPolicy:
    """What a policy of warm floors would have done with the recorded bots of a pool."""

    name: str
    max_size: int
    on_time_share: float
    p50_ms: int
    p95_ms: int
    p99_ms: int
    longest_queue: int | None
    idle_slot_hours_per_day: float | None
    hot_slot_hours_per_day: float | None
    meets_goal: bool
    settings: str | None
    """The policy as settings to paste; None for the record itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The planner's comparison of policies for a pool."""

    platform: str
    since_at: datetime
    until_at: datetime
    bots: int
    slo: float
    within_ms: int
    recommended: str | None
    advice: str
    policies: list[PlanPolicy] = field(hash=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSample:
    """The figures of a pool in one minute."""

    at: datetime
    arrivals: int
    queue_depth: int | None
    slots: Mapping[str, int] | None = field(hash=False)
    time_to_running_p50_ms: int | None
    time_to_running_p95_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleSlice:
    """The most bookings of a pool at one time in ten minutes."""

    starts_at: datetime = field(metadata=FROM)
    ends_at: datetime = field(metadata=TO)
    booked: int
    reserved: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Booking:
    """A scheduled bot and the period for which it needs a slot."""

    bot_id: int
    status: str
    reserved: bool
    starts_at: datetime
    join_at: datetime
    ends_at: datetime
    on_time_probability: float | None
    at_risk: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OnTimeScore:
    """Outcomes of scheduled bots whose predicted probability lies in one tenth."""

    bucket: int
    reserved: bool
    bots: int
    on_time: int
    predicted: float
    brier: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The bookings of a pool, and its predictions against the outcomes."""

    now: datetime
    max_size: int
    reservable_slots: int
    held: int
    hold_s: float
    slices: list[ScheduleSlice] = field(hash=False)
    bookings: list[Booking] = field(hash=False)
    score: list[OnTimeScore] = field(hash=False)
