"""The models of requests and responses of agents."""

from typing import Annotated, Any, Literal, Self

from pydantic import AwareDatetime, BeforeValidator, Field, StringConstraints, model_validator

from botpool.api.bot_data_schemas import Screenshot
from botpool.api.opaque_json import storable_up_to
from botpool.api.patterns import EVENT_KIND, NO_NUL, PRINTABLE, VISIBLE
from botpool.api.schemas import Bot, Model, RequestModel, WholeNumber
from botpool.domain import bots
from botpool.domain.bot_data import MAX_ARTIFACTS, ArtifactKind
from botpool.domain.heartbeat import AgentPhase, HeartbeatReport
from botpool.domain.states import EndReason
from botpool.engine.agents.standby_polls import PollAnswer

_MAX_EVENT_DATA = 8 * 1024
_MAX_PROGRESS = 4 * 1024
_MAX_ACKNOWLEDGED = 100
_MAX_INTEGER = 2**53 - 1
"""The largest integer that every JSON client can express."""
_ENDS = ("CALL_ENDED", "DONE", "FAILED", "FATAL")


def _require_text(value: object) -> object:
    """Reject numbers, which pydantic reads as seconds since 1970."""
    if value is not None and not isinstance(value, str):
        raise ValueError("should be a date and time as text")
    return value


class AgentBot(Bot):
    """The agent's bot. After the release, the meeting's link is absent."""

    meeting_url: str = Field("", description="Absent after the release.")

    @classmethod
    def without_link(cls, bot: bots.Bot) -> Self:
        names = [name for name in cls.model_fields if name != "meeting_url"]
        return cls.model_validate({name: getattr(bot, name) for name in names})


class AgentSlot(Model):
    bot: AgentBot
    bot_data: Annotated[dict[str, Any], Field(description="Absent after the release.")] = {}  # noqa: RUF012 - pydantic copies it
    released: Annotated[bool, Field(description="True if the assignment has ended: exit.")]
    heartbeat_interval_ms: int
    join_in_ms: Annotated[
        int | None,
        Field(
            ge=0,
            description="Only for a scheduled bot: wait this long, then report JOINING_CALL to ask "
            "for permission to join.",
        ),
    ] = None


class HeartbeatBody(RequestModel):
    """What an agent may tell with a heartbeat. An absent field changes nothing."""

    phase: Annotated[
        AgentPhase | None,
        Field(
            description="`finishing`: the bot has left the call and saves its recording. Also "
            "acknowledges a request to leave."
        ),
    ] = None
    last_media_at: Annotated[
        AwareDatetime | None,
        Field(description="When the bot last recorded audio or video."),
        BeforeValidator(_require_text),
    ] = None
    progress: Annotated[
        Annotated[dict[str, Any], storable_up_to(_MAX_PROGRESS)] | None,
        Field(
            description="Figures of the bot's choice, up to 4 KiB, such as bytes uploaded. A "
            "change restarts `finish_timeout_s`."
        ),
    ] = None
    acknowledged: Annotated[
        list[Annotated[int, Field(ge=1, le=_MAX_INTEGER)]],
        Field(max_length=_MAX_ACKNOWLEDGED, description="The ids of received commands."),
    ] = []  # noqa: RUF012 - pydantic copies it

    def report(self) -> HeartbeatReport:
        return HeartbeatReport(
            phase=self.phase,
            last_media_at=self.last_media_at,
            progress=self.progress,
            acknowledged=self.acknowledged,
        )


class Command(Model):
    id: Annotated[int, Field(description="Acknowledge it with a later heartbeat.")]
    kind: str
    data: dict[str, Any]


class Heartbeat(Model):
    should_leave: bool
    should_exit: bool
    commands: Annotated[
        list[Command],
        Field(
            description="Commands to the bot, in order, until a heartbeat acknowledges them. A "
            "command can come twice."
        ),
    ] = []  # noqa: RUF012 - pydantic copies it
    join_in_ms: Annotated[
        int | None,
        Field(
            description="While a scheduled bot waits: the time until it joins, also after a move."
        ),
    ] = None


class StatusReport(RequestModel):
    status: Annotated[
        Literal[
            "JOINING_CALL", "IN_WAITING_ROOM", "IN_CALL", "CALL_ENDED", "DONE", "FAILED", "FATAL"
        ],
        Field(description="`FATAL` is a synonym of `FAILED`."),
    ]
    failure_reason: Annotated[
        str | None, Field(max_length=2000, pattern=NO_NUL, description="The reason for `FAILED`.")
    ] = None
    end_reason: Annotated[
        EndReason | None,
        Field(description="Why the call ended: with `CALL_ENDED`, `DONE` or `FAILED`."),
    ] = None

    @model_validator(mode="after")
    def _reason_of_an_end(self) -> Self:
        if self.end_reason is not None and self.status not in _ENDS:
            raise ValueError("endReason goes with CALL_ENDED, DONE or FAILED")
        return self


class Applied(Model):
    applied: Annotated[
        bool, Field(description="False if the report was late or backward; nothing changed.")
    ]
    bot: AgentBot
    join_in_ms: Annotated[
        int | None,
        Field(
            ge=0,
            description="Only in the answer to JOINING_CALL: the bot joins later. Wait this long "
            "and report again.",
        ),
    ] = None
    should_exit: Annotated[
        bool | None,
        Field(description="Only in the answer to JOINING_CALL: the bot was cancelled. Exit."),
    ] = None


class AgentEvent(RequestModel):
    kind: Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=EVENT_KIND)]
    data: Annotated[dict[str, Any], storable_up_to(_MAX_EVENT_DATA)] = {}  # noqa: RUF012 - pydantic copies it


class AgentEvents(RequestModel):
    events: Annotated[list[AgentEvent], Field(max_length=100)]


class Artifact(RequestModel):
    """A file that the bot made. Botpool stores the reference, not the file."""

    kind: ArtifactKind
    location: Annotated[
        str,
        StringConstraints(min_length=1, max_length=2048, pattern=PRINTABLE),
        Field(description="The address of the file, or its key in the bot's storage."),
    ]
    size_bytes: Annotated[int | None, Field(strict=True, ge=0, le=_MAX_INTEGER), WholeNumber] = None
    content_type: Annotated[
        str | None, Field(max_length=200, pattern=VISIBLE, examples=["video/mp4"])
    ] = None


class Artifacts(RequestModel):
    artifacts: Annotated[list[Artifact], Field(max_length=MAX_ARTIFACTS)]


class NewScreenshot(Model):
    screenshot: Screenshot | None


class Recorded(Model):
    recorded: int


class StandbyAssignment(Model):
    id: Annotated[int, Field(description="The assignment.")]
    token: Annotated[str, Field(description="The assignment's token, for all other calls.")]
    container_id: str
    environment: Annotated[
        dict[str, str],
        Field(description="The variables that a container of this bot would start with."),
    ]


class StandbyAnswer(Model):
    assignment: Annotated[
        StandbyAssignment | None, Field(description="The bot's assignment; null: poll again.")
    ]
    should_exit: Annotated[bool, Field(description="This container does not get a bot any more.")]

    @classmethod
    def of_poll(cls, answer: PollAnswer) -> Self:
        found = answer.handover
        return cls(
            assignment=None
            if found is None
            else StandbyAssignment(
                id=found.assignment_id,
                token=answer.token,
                container_id=found.container_id,
                environment=dict(answer.environment),
            ),
            should_exit=answer.should_exit,
        )
