"""The statuses that an agent may report, and the final status after an exception."""

import asyncio
from enum import StrEnum


class Status(StrEnum):
    JOINING_CALL = "JOINING_CALL"
    IN_WAITING_ROOM = "IN_WAITING_ROOM"
    IN_CALL = "IN_CALL"
    CALL_ENDED = "CALL_ENDED"
    DONE = "DONE"
    FAILED = "FAILED"
    FATAL = "FATAL"
    """A synonym for FAILED."""


FAILURES = frozenset({Status.FAILED, Status.FATAL})
FINAL = FAILURES | {Status.DONE}


def end_of(error: BaseException | None) -> tuple[Status, str | None]:
    """Return the final status and reason of a bot whose block ended with `error`."""
    match error:
        case None | SystemExit(code=None | 0):
            return Status.DONE, None
        case SystemExit(code=code):
            return Status.FAILED, f"The bot exited with {code}."
        case asyncio.CancelledError():
            return Status.FAILED, "The bot was stopped before it had ended."
        case _:
            return Status.FAILED, str(error) or type(error).__name__
