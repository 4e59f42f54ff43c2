"""Data that is kept with a bot: artifacts, screenshots, output and commands."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

MAX_ARTIFACTS = 100
MAX_SCREENSHOT_BYTES = 512 * 1024
MAX_OUTPUT_BYTES = 64 * 1024
MAX_OPEN_COMMANDS = 100
"""Commands of one bot that its agent has not acknowledged."""
MAX_COMMANDS = 1000
"""All commands of one bot."""


class ArtifactKind(StrEnum):
    RECORDING = "recording"
    TRANSCRIPT = "transcript"
    SPEAKERS = "speakers"
    LOG = "log"
    OTHER = "other"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewArtifact:
    """A file that an agent lists; the bot keeps it where it wants."""

    kind: ArtifactKind
    location: str
    """The address of the file, or its key in the bot's storage."""
    size_bytes: int | None = None
    content_type: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact(NewArtifact):
    """A file that a bot made, as its agent listed it."""

    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Screenshot:
    """A screenshot that an agent sent, without its content."""

    number: int
    content_type: str
    size_bytes: int
    note: str
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The content of a screenshot."""

    content: bytes = field(repr=False)
    content_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptOutput:
    """The end of the output of a bot's last run."""

    output: bytes = field(repr=False)
    is_whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command to a bot, as its agent receives it."""

    id: int
    kind: str
    data: Mapping[str, Any]


class CommandState(StrEnum):
    """How far a command has come.

    - `waiting`: no heartbeat's response contained it yet
    - `delivered`: a response contained it; the agent has not acknowledged it
    - `acknowledged`: the agent has it
    - `lost`: the bot ended before its agent acknowledged it
    """

    WAITING = "waiting"
    DELIVERED = "delivered"
    ACKNOWLEDGED = "acknowledged"
    LOST = "lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class SentCommand(Command):
    """A command to a bot, as its user sees it."""

    state: CommandState
    at: datetime
    delivered_at: datetime | None
    acknowledged_at: datetime | None


_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
)


def picture_type(content: bytes) -> str | None:
    """Return the media type of a picture by its first bytes; None if it is no known picture.

    Browsers show the content, so what an agent says about it does not count.
    """
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC if content.startswith(magic)), None)
