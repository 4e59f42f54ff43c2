"""The models of requests and responses. JSON is camelCase, times are UTC with `Z`."""

from datetime import datetime
from operator import attrgetter
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    create_model,
    model_validator,
)
from pydantic.alias_generators import to_camel

from botpool.api.opaque_json import storable_up_to
from botpool.api.patterns import LINK, PLATFORM, PRINTABLE
from botpool.domain.meeting_links import host_of
from botpool.domain.states import BotStatus, EndReason, FailureCode
from botpool.domain.timeline import Phase

_MAX_BOT_DATA = 64 * 1024
_INT32 = 2**31 - 1
_MAX_DURATION_MS = 7 * 24 * 3600 * 1000

PoolNameField = Annotated[str, Field(alias="platform", description="The pool name.")]
"""The pool name, which the HTTP interface calls `platform`."""


class Model(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, from_attributes=True, extra="forbid"
    )

    @classmethod
    def of(cls, record: object, **more: object) -> Self:
        """Create the model from a record whose attributes have the names of the fields.

        `more` has the fields that the record lacks. Validation by field name only: a lookup by
        alias would fail for every field and cost more time than the rest of the response.
        """
        if more:
            names = [name for name in cls.model_fields if name not in more]
            record = {name: getattr(record, name) for name in names} | more
        return cls.model_validate(record, by_alias=False, by_name=True)


def _is_link(url: str) -> str:
    if host_of(url) is None:
        raise ValueError("should be an http or https address with a host")
    return url


_MAX_FIELDS = 50
"""Above the fields of every request: each unknown field costs an error message."""


class RequestModel(Model):
    """The body of a request, or an object in it. Too many fields are one error."""

    @model_validator(mode="before")
    @classmethod
    def _limit_fields(cls, value: object) -> object:
        if isinstance(value, dict) and len(value) > _MAX_FIELDS:
            raise ValueError(
                f"has {len(value)} fields, of which at most {len(cls.model_fields)} are known"
            )
        return value


def _whole(value: object) -> object:
    """Read `1.0` as 1: JSON does not distinguish them."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WholeNumber = BeforeValidator(_whole)


def _require_time(value: object) -> object:
    """Refuse numbers, and times without an offset: a clock change would make them ambiguous."""
    if value is None:
        return value
    if not isinstance(value, str):
        raise ValueError("should be a time as text, such as 2026-03-30T09:00:00+02:00")
    return value


class BotCreate(RequestModel):
    """A request for a bot. `bot_create_model` adds the fields that depend on settings."""

    meeting_url: Annotated[
        str,
        StringConstraints(min_length=8, max_length=2048, pattern=LINK),
        AfterValidator(_is_link),
        Field(
            description="The link of the meeting.",
            examples=["https://meet.google.com/abc-defg-hij"],
        ),
    ]
    bot_display_name: Annotated[
        str, StringConstraints(min_length=1, max_length=100, pattern=PRINTABLE)
    ] = "Botpool"
    platform: str | None
    priority: Annotated[
        int, Field(strict=True, ge=-_INT32, le=_INT32, description="Lower goes first.")
    ] = 100
    bot_data: Annotated[
        dict[str, Any],
        storable_up_to(_MAX_BOT_DATA),
        Field(description="Any JSON object up to 64 KiB, passed to the container."),
    ] = {}
    queue_timeout_ms: int
    join_at: Annotated[
        AwareDatetime | None,
        BeforeValidator(_require_time),
        Field(
            description="When the bot joins, with an offset from UTC. The bot is SCHEDULED until "
            "its container starts, early enough to be there on time.",
            examples=["2026-03-30T09:00:00+02:00"],
        ),
    ] = None
    expected_duration_ms: Annotated[
        int | None,
        Field(
            strict=True,
            gt=0,
            le=_MAX_DURATION_MS,
            description="How long the call will probably last, with `joinAt`. Default: the p90 of "
            "the pool's recent bots.",
        ),
    ] = None
    require_reservation: Annotated[
        bool,
        Field(
            strict=True,
            description="With `joinAt`: refuse the request with 409 and the nearest free time if "
            "no slot can be reserved.",
        ),
    ] = False

    @model_validator(mode="after")
    def _check_schedule(self) -> Self:
        if self.join_at is None:
            if self.expected_duration_ms is not None or self.require_reservation:
                raise ValueError("expectedDurationMs and requireReservation need joinAt")
        elif self.queue_timeout_ms == 0:
            raise ValueError("queueTimeoutMs should not be 0 with joinAt: a due bot may queue")
        return self


class BotChanges(RequestModel):
    """Changes of a bot before its start. An absent field stays as it is."""

    model_config = ConfigDict(
        json_schema_extra={"minProperties": 1, "example": {"joinAt": "2026-12-01T09:00:00Z"}}
    )

    join_at: Annotated[
        AwareDatetime,
        BeforeValidator(_require_time),
        Field(description="The new time, with an offset from UTC."),
    ] = None  # type: ignore[assignment]
    priority: Annotated[
        int, Field(strict=True, ge=-_INT32, le=_INT32, description="Lower goes first.")
    ] = None  # type: ignore[assignment]
    bot_display_name: Annotated[
        str, StringConstraints(min_length=1, max_length=100, pattern=PRINTABLE)
    ] = None  # type: ignore[assignment]

    @model_validator(mode="after")
    def _require_change(self) -> Self:
        if not self.model_fields_set:
            raise ValueError("should have joinAt, priority or botDisplayName")
        return self


def bot_create_model(
    pool_names: tuple[str, ...], *, default_timeout_ms: int, max_timeout_ms: int
) -> type[BotCreate]:
    """Create the request model with the pools and queue limits of this installation."""
    platform = Field(
        None,
        pattern=PLATFORM,
        description="The pool name. Default: derived from the host of the meeting link.",
        json_schema_extra={"enum": [*pool_names, None]},
    )
    limit = Field(
        default_timeout_ms,
        strict=True,
        ge=0,
        le=max_timeout_ms,
        description="Maximum time in the queue. 0: do not queue.",
    )
    return create_model(
        "BotCreate",
        __base__=BotCreate,
        platform=(str | None, platform),
        queue_timeout_ms=(int, limit),
    )


class CreatedBy(Model):
    """The API key that created a bot."""

    key_id: int
    key_name: str


class Bot(Model):
    """A bot. Times are null until the event happens."""

    id: int
    correlation_id: Annotated[str, Field(description="In every log line and event of the bot.")]
    pool_name: PoolNameField
    meeting_url: str
    bot_display_name: str
    status: BotStatus
    priority: int
    slot_name: Annotated[str | None, Field(description="The last slot; kept after the end.")]
    container_id: str | None
    attempts: Annotated[int, Field(description="Deployments so far.")]
    failure_reason: str | None
    failure_code: Annotated[FailureCode | None, Field(description="Set if FAILED.")]
    end_reason: Annotated[
        EndReason | None, Field(description="Why the call ended, if the agent reported it.")
    ]
    artifact_count: Annotated[int, Field(description="The files that the bot listed.")]
    created_at: datetime
    queued_at: datetime | None
    assigned_at: datetime | None
    started_at: Annotated[datetime | None, Field(description="When the container ran.")]
    last_heartbeat_at: datetime | None
    finishing_at: Annotated[
        datetime | None,
        Field(description="When the bot began to finish: after its call, it saves its recording."),
    ]
    ended_at: datetime | None
    tenant: Annotated[str, Field(description="The tenant that owns the bot.")]
    created_by: CreatedBy | None
    stalled: Annotated[
        bool,
        Field(description="In the call and alive, but without media for `stalled_after_s`."),
    ]
    join_at: Annotated[datetime | None, Field(description="When a scheduled bot joins.")]
    reserved: Annotated[
        bool | None, Field(description="Whether a slot is reserved for a scheduled bot.")
    ]
    on_time_probability: Annotated[
        float | None,
        Field(description="The predicted probability that a scheduled bot joins on time."),
    ]
    at_risk: Annotated[
        str | None,
        Field(description="Why a scheduled bot will probably be late; null while it will not."),
    ]


_BOT_NAMES = tuple(field.alias for field in Bot.model_fields.values())
_BOT_VALUES = attrgetter(*Bot.model_fields)


def bot_fields(record: object) -> dict[str | None, Any]:
    """The fields of a bot by their JSON names, without validation."""
    values = dict(zip(_BOT_NAMES, _BOT_VALUES(record), strict=True))
    if (key := values["createdBy"]) is not None:
        values["createdBy"] = {"keyId": key.key_id, "keyName": key.key_name}
    return values


class BotResponse(Model):
    bot: Bot
    queue_position: Annotated[int | None, Field(ge=1, description="Only while QUEUED.")] = None
    estimated_wait_ms: Annotated[int | None, Field(ge=0, description="Only while QUEUED.")] = None
    warning: Annotated[
        str | None,
        Field(
            description="Only in the response to the request, and only while the pool's backend "
            "fails: the setting at fault and the reason."
        ),
    ] = None
    progress: Annotated[
        dict[str, Any] | None,
        Field(
            description="Only in `GET /v1/bots/{id}`: the figures that the bot's heartbeats "
            "carried last, if any."
        ),
    ] = None
    last_media_at: Annotated[
        datetime | None,
        Field(
            description="Only in `GET /v1/bots/{id}`: when the bot last recorded media, if its "
            "heartbeats say so."
        ),
    ] = None


NextCursor = Annotated[str | None, Field(description="Null on the last page.")]


class BotPage(Model):
    bots: list[Bot]
    next_cursor: NextCursor = None


class Event(Model):
    """One row of history."""

    at: datetime
    kind: Annotated[str, Field(description="`bot.status`, `slot.phase`, `agent.…` and others.")]
    from_state: Annotated[str | None, Field(alias="from")]
    to_state: Annotated[str | None, Field(alias="to")]
    slot_name: str | None
    reason: str
    data: dict[str, Any] | None


class Change(Event):
    """The data of a `change` event of the stream."""

    pool_name: Annotated[str | None, Field(alias="platform")]
    bot_id: int | None
    slot_id: int | None
    correlation_id: str | None


class Notice(Model):
    """The data of a `reset` or `denied` event of the stream."""

    reason: str


class Events(Model):
    events: list[Event]
    next_cursor: NextCursor = None


class TimelineBar(Model):
    phase: Phase
    began_at: Annotated[datetime, Field(alias="from")]
    ended_at: Annotated[
        datetime | None, Field(alias="to", description="Null while the phase lasts.")
    ]


class Timeline(Model):
    phases: list[TimelineBar]


class QueueEntry(Model):
    bot_id: int
    pool_name: PoolNameField
    priority: int
    position: int
    queued_at: datetime
    timeout_at: datetime
    estimated_wait_ms: int | None


class Queue(Model):
    queue: list[QueueEntry]
    next_cursor: NextCursor = None
