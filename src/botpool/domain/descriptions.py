"""What a backend's own page shows of a slot, in the words of the seeds."""

from datetime import UTC, datetime

from botpool.domain.ids import BotId
from botpool.domain.states import SlotStatus

_LONGEST = 255


def description_of(
    status: SlotStatus,
    *,
    bot_id: BotId | None,
    at: datetime,
    last_used_at: datetime,
    problem: str | None,
) -> str:
    """One line, never longer than platforms keep; a long problem is cut, its time is not."""
    match status:
        case SlotStatus.DEPLOYING | SlotStatus.BUSY:
            return f"[{status.upper()}] Bot #{bot_id} - {_time(at)}"
        case SlotStatus.ERROR:
            room = _LONGEST - len(f"[ERROR]  - {_time(at)}")
            return f"[ERROR] {(problem or 'unknown')[:room]} - {_time(at)}"
        case _:
            return f"[IDLE] Available - Last used: {_time(last_used_at)}"


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
