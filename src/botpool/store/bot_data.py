"""Statements about the data that is kept with a bot: artifacts, screenshots, output, commands."""

from collections.abc import Sequence

from botpool.domain import reasons
from botpool.domain.bot_data import (
    MAX_ARTIFACTS,
    MAX_COMMANDS,
    MAX_OPEN_COMMANDS,
    Artifact,
    ArtifactKind,
    Command,
    KeptOutput,
    Picture,
    Screenshot,
    SentCommand,
)
from botpool.domain.ids import AssignmentId, BotId
from botpool.store.query import query


@query
def lock_bot_data(*, bot_id: BotId) -> None:
    """Take the lock of a bot's data until the transaction ends."""


@query
def record_artifacts(
    *,
    assignment_id: AssignmentId,
    kinds: Sequence[ArtifactKind],
    locations: Sequence[str],
    sizes: Sequence[int | None],
    content_types: Sequence[str | None],
    max_artifacts: int = MAX_ARTIFACTS,
    reason: str = reasons.REPORTED_BY_AGENT,
) -> list[int]:
    """Add artifacts to an agent's bot; one row per recorded artifact."""


@query
def list_artifacts(*, bot_id: BotId) -> list[Artifact]:
    """The artifacts of a bot, in the order in which its agent listed them."""


@query
def add_screenshot(
    *,
    assignment_id: AssignmentId,
    content: bytes,
    content_type: str,
    note: str,
    kept: int,
    max_screenshots: int,
) -> Screenshot | None:
    """Add a screenshot to an agent's bot and delete all but the last ones."""


@query
def list_screenshots(*, bot_id: BotId) -> list[Screenshot]:
    """The screenshots of a bot without their content, oldest first."""


@query
def get_screenshot(*, bot_id: BotId, number: int) -> Picture | None:
    """The content of one screenshot."""


@query
def keep_output(
    *, bot_id: BotId, assignment_id: AssignmentId, output: bytes, is_whole: bool
) -> None:
    """Keep the end of a run's output with its bot."""


@query
def get_output(*, bot_id: BotId, assignment_id: AssignmentId) -> KeptOutput | None:
    """The kept output of a bot's run."""


@query
def insert_command(
    *,
    bot_id: BotId,
    kind: str,
    data: str,
    max_open: int = MAX_OPEN_COMMANDS,
    max_commands: int = MAX_COMMANDS,
) -> SentCommand | None:
    """Add a command to a bot; None if the bot has ended or has too many."""


@query
def list_commands(*, bot_id: BotId, after: int, limit: int) -> list[SentCommand]:
    """The commands of a bot after an id, oldest first."""


@query
def deliver_commands(*, assignment_id: AssignmentId, limit: int) -> list[Command]:
    """Mark the first commands that are not acknowledged as delivered and return them, in order."""


@query
def take_command(*, assignment_id: AssignmentId, kind: str) -> Command | None:
    """Take the first command of a kind; it counts as acknowledged."""


@query
def acknowledge_commands(*, assignment_id: AssignmentId, command_ids: Sequence[int]) -> list[int]:
    """Mark commands as acknowledged; returns those that were not before."""
