"""Statements about the database's clock and about times that lie ahead of it."""

from dataclasses import dataclass
from datetime import datetime

from botpool.domain.ids import AssignmentId, BotId, SlotId
from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockJump:
    """A recorded jump of the database's clock."""

    noticed_at: datetime
    seconds: float
    """Positive if the clock jumped forward."""
    age_s: float


@query
def read_clock() -> datetime:
    """Read the database's clock."""


@query
def record_clock_jump(*, seconds: float) -> None:
    """Record a jump."""


@query
def get_clock_jump() -> ClockJump | None:
    """Read the last recorded jump."""


@query
def reschedule_slots(
    *, tolerance_s: float, lease_s: float, deadline_s: float, delay_s: float, leave_grace_s: float
) -> list[SlotId]:
    """Reschedule slots whose times lie implausibly far ahead.

    `deadline_s` is the longest deadline of a deployment, `delay_s` the longest delay of a step.
    """


@query
def reschedule_queue(*, tolerance_s: float) -> list[BotId]:
    """Shift queue rows from the future so that they began now."""


@query
def reschedule_leaves(*, tolerance_s: float, leave_grace_s: float) -> list[BotId]:
    """Bring the deadlines of bots that were asked to leave back to the grace from now."""


@query
def reschedule_backends(
    *, tolerance_s: float, observe_interval_s: float, pause_s: float
) -> list[str]:
    """Make observations due again and shorten pauses."""


@query
def forget_future_requests(*, tolerance_s: float) -> list[str]:
    """Forget requests to backends that are counted in the future."""


@query
def reschedule_descriptions(*, tolerance_s: float, hold_s: float) -> list[SlotId]:
    """Make descriptions writable again."""


@query
def correct_heartbeats(*, tolerance_s: float) -> list[BotId]:
    """Count heartbeats from the future as heartbeats of now."""


@query
def correct_assignments(*, tolerance_s: float) -> list[AssignmentId]:
    """Let assignments that began in the future run since now."""


@query
def correct_pools(*, tolerance_s: float) -> None:
    """Correct times of pools that lie in the future."""


@query
def correct_liveness(*, tolerance_s: float) -> list[str]:
    """Let replicas that were alive in the future have been alive until now."""
