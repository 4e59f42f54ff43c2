"""The description of a slot that Botpool writes to the backend."""

from datetime import UTC, datetime

from botpool.domain.ids import BotId
from botpool.domain.states import SlotStatus

_MAX_LENGTH = 255


def description_of(
    status: SlotStatus,
    *,
    bot_id: BotId | None,
    at: datetime,
    last_used_at: datetime,
    problem: str | None,
    problem_at: datetime | None,
) -> str:
    """Return one line within the length that backends store; a long problem is cut.

    A releasing slot has a description only if something went wrong: it is being reset. The error
    stays visible in the idle slot until its next bot.
    """
    match status:
        case SlotStatus.DEPLOYING | SlotStatus.BUSY:
            return f"[{status.upper()}] Bot #{bot_id} - {_time(at)}"
        case SlotStatus.ERROR | SlotStatus.RELEASING:
            return _with_problem("[ERROR] ", problem or "unknown", problem_at or at)
        case _ if problem:
            return _with_problem("[IDLE] Available - Last error: ", problem, problem_at or at)
        case _:
            return f"[IDLE] Available - Last used: {_time(last_used_at)}"


def _with_problem(prefix: str, problem: str, at: datetime) -> str:
    suffix = f" - {_time(at)}"
    text = problem.rstrip(".")
    return f"{prefix}{text[: _MAX_LENGTH - len(prefix + suffix)]}{suffix}"


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
