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
) -> str:
    """Return one line within the length that backends store; a long problem is cut."""
    match status:
        case SlotStatus.DEPLOYING | SlotStatus.BUSY:
            return f"[{status.upper()}] Bot #{bot_id} - {_time(at)}"
        case SlotStatus.ERROR:
            room = _MAX_LENGTH - len(f"[ERROR]  - {_time(at)}")
            return f"[ERROR] {(problem or 'unknown')[:room]} - {_time(at)}"
        case _:
            return f"[IDLE] Available - Last used: {_time(last_used_at)}"


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
