"""The models of what agents and users attach to bots: artifacts, screenshots and commands."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import Field, StringConstraints

from botpool.api.opaque_json import storable_up_to
from botpool.api.patterns import EVENT_KIND
from botpool.api.schemas import Model, RequestModel
from botpool.domain.bot_data import ArtifactKind, CommandState

_MAX_COMMAND_DATA = 8 * 1024


class Artifact(Model):
    """A file that the bot made. Botpool stores the reference, not the file."""

    kind: ArtifactKind
    location: Annotated[
        str, Field(description="The address of the file, or its key in the bot's storage.")
    ]
    size_bytes: int | None
    content_type: str | None
    at: datetime


class Artifacts(Model):
    artifacts: list[Artifact]


class Screenshot(Model):
    """A screenshot; `GET /v1/bots/{id}/screenshots/{number}` returns the picture."""

    number: int
    content_type: str
    size_bytes: int
    note: Annotated[str, Field(description="What the agent says about it; may be empty.")]
    at: datetime


class Screenshots(Model):
    screenshots: list[Screenshot]


class CommandCreate(RequestModel):
    kind: Annotated[
        str,
        StringConstraints(min_length=1, max_length=64, pattern=EVENT_KIND),
        Field(examples=["chat"]),
    ]
    data: Annotated[dict[str, Any], storable_up_to(_MAX_COMMAND_DATA)] = Field(
        {}, description="Any JSON object up to 8 KiB.", examples=[{"text": "Hello"}]
    )


class Command(Model):
    id: int
    kind: str
    data: dict[str, Any]
    state: CommandState
    at: datetime
    delivered_at: datetime | None
    acknowledged_at: datetime | None


class CommandResponse(Model):
    command: Command


class Commands(Model):
    commands: list[Command]
    next_cursor: str | None = None
