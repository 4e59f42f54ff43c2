"""Records of the API's responses. Fields that a newer server adds are ignored."""

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from datetime import datetime
from typing import Any, Generic, TypeVar

from botpool.domain.states import FINAL, WITH_BOT

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedBy:
    """The API key that created a bot."""

    key_id: int
    key_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Bot:
    """A bot as it was at the time of the response."""

    id: int
    correlation_id: str
    platform: str
    meeting_url: str = field(repr=False)
    bot_display_name: str
    status: str
    priority: int
    slot_name: str | None
    container_id: str | None
    attempts: int
    failure_reason: str | None
    failure_code: str | None
    end_reason: str | None = None
    artifact_count: int = 0
    created_at: datetime
    queued_at: datetime | None
    assigned_at: datetime | None
    started_at: datetime | None
    last_heartbeat_at: datetime | None
    ended_at: datetime | None
    tenant: str
    created_by: CreatedBy | None
    stalled: bool = False
    """In the call and alive, but without media for the pool's `stalled_after_s`."""
    finishing_at: datetime | None = None
    """When the bot began to finish: after its call, it saves its recording."""
    join_at: datetime | None = None
    """When a scheduled bot joins."""
    reserved: bool | None = None
    """Whether a slot is reserved for a scheduled bot."""
    on_time_probability: float | None = None
    at_risk: str | None = None
    """Why a scheduled bot will probably be late; None while it will not."""
    queue_position: int | None = None
    """From 1, while the bot is QUEUED; None in lists of bots."""
    estimated_wait_ms: int | None = None
    progress: Mapping[str, Any] | None = field(default=None, hash=False)
    """The figures that the bot's heartbeats carried last; None in lists of bots."""
    last_media_at: datetime | None = None
    """When the bot last recorded media, if its heartbeats say so; None in lists of bots."""
    warning: str | None = None
    """Why the pool's backend fails; only in the response to the request for the bot."""

    @property
    def is_final(self) -> bool:
        """Whether the status is DONE, FAILED or CANCELLED, which never changes again."""
        return self.status in FINAL


@dataclass(frozen=True, slots=True, kw_only=True)
class Page(Generic[T]):
    """A part of a list; `next_cursor` continues it, and is None at the end."""

    items: list[T]
    next_cursor: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A file that a bot made; the bot's own storage has it."""

    kind: str
    location: str
    """The address of the file, or its key in the bot's storage."""
    size_bytes: int | None
    content_type: str | None
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Screenshot:
    """A screenshot that a bot's agent sent, without the picture."""

    number: int
    content_type: str
    size_bytes: int
    note: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command to a bot and how far it has come: waiting, delivered, acknowledged or lost."""

    id: int
    kind: str
    data: Mapping[str, Any]
    state: str
    at: datetime
    delivered_at: datetime | None
    acknowledged_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A row of a bot's history."""

    at: datetime
    kind: str
    from_state: str | None
    to_state: str | None
    slot_name: str | None
    reason: str
    data: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotEvent(Event):
    """A row of a slot's history."""

    bot_id: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Change(Event):
    """A change that the stream reports."""

    cursor: str
    """The position in the stream: `changes(after=...)` continues from here."""
    platform: str | None
    bot_id: int | None
    slot_id: int | None
    correlation_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset:
    """A gap in the stream: changes are missing, so load the current state again."""

    cursor: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueEntry:
    """A bot that waits for a slot."""

    bot_id: int
    platform: str
    priority: int
    position: int
    queued_at: datetime
    timeout_at: datetime
    estimated_wait_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One action of a key or a command."""

    id: int
    at: datetime
    actor: str
    actor_key_id: int | None
    tenant: str | None
    action: str
    target: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    address: str | None
    correlation_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Webhook:
    """An address that gets events."""

    id: int
    url: str
    description: str
    events: list[str] | None
    """The types of events that it gets; None: all."""
    tenant: str | None
    """The only tenant whose events it gets; None: all."""
    status: str
    """`active`, `failing` or `disabled`."""
    disabled_at: datetime | None
    disabled_reason: str | None
    failing_since: datetime | None
    last_delivered_at: datetime | None
    overlap_ends_at: datetime | None
    pending: int
    failed: int
    created_at: datetime
    created_by: str
    secret: str | None = field(default=None, repr=False)
    """Verifies signatures; only in the responses to the creation and to a rotation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """An event for a webhook, with its last attempt."""

    id: int
    event_id: str
    type: str
    bot_id: int | None
    status: str
    """`pending`, `delivered` or `failed`."""
    attempts: int
    created_at: datetime
    last_attempt_at: datetime | None
    next_attempt_at: datetime | None
    duration_ms: int | None
    request: Mapping[str, Any] = field(hash=False)
    response: Mapping[str, Any] | None = field(hash=False)
    """The status and the start of the answer; None without an answer."""
    problem: str | None


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
class Pool:
    """A pool with its figures."""

    platform: str
    backend: str
    backend_health: BackendHealth
    image: str
    size: int
    max_size: int
    slots_by_status: Mapping[str, int]
    queue_depth: int
    oldest_wait_ms: int | None
    warm_hit_ratio: float | None
    time_to_running_p50_ms: int | None
    time_to_running_p95_ms: int | None
    drained: bool
    pacing: Pacing | None = None
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
class RecoveryResult:
    """Counts of the slots that a recovery pass handled."""

    recovered: int
    requeued: int
    failed: int
    deleted: int
    skipped: int


_NAMES = {"from_state": "from", "to_state": "to"}
_NESTED: Mapping[str, type] = {
    "backend_health": BackendHealth,
    "created_by": CreatedBy,
    "pacing": Pacing,
}


_TIMES = ("_at", "_since")


def read(kind: type[T], body: Mapping[str, Any], **more: Any) -> T:
    """Build a record from a JSON object and the JSON values in `more`.

    Raises KeyError with the name of a missing field, and TypeError or ValueError for other JSON.
    """
    values = {name: _value(name, value) for name, value in more.items()}
    for each in fields(kind):  # type: ignore[arg-type] # all callers pass a dataclass
        name = _NAMES.get(each.name, _camel(each.name))
        if name in body:
            values[each.name] = _value(each.name, body[name])
        elif each.name not in values and each.default is MISSING:
            raise KeyError(name)
    return kind(**values)


def _value(field_name: str, value: Any) -> Any:
    if field_name in _NESTED and isinstance(value, Mapping):
        return read(_NESTED[field_name], value)
    if field_name == "policies":
        return [read(PlanPolicy, each) for each in value]
    if value is not None and (field_name == "at" or field_name.endswith(_TIMES)):
        return datetime.fromisoformat(value)
    return value


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)
