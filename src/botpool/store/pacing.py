"""Statements about egresses: their settings, their pace and their circuit breakers."""

from dataclasses import dataclass
from datetime import datetime

from botpool.domain import reasons
from botpool.domain.ids import AssignmentId, PoolName
from botpool.domain.pacing import LONGEST_PAUSE_S, LOWEST_PACE, EgressState
from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockedEgress:
    """An egress after a bot was blocked."""

    egress: str
    blocks: int
    """How many bots in a row were blocked."""
    lowered: bool
    opened: bool
    probe_at: datetime | None
    per_minute: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmittedEgress:
    """An egress after one of its bots was admitted to a meeting."""

    egress: str
    closed: bool
    """Whether the bot was the probe, which closed the circuit breaker."""


@query
def upsert_egress(
    *,
    egress: str,
    per_minute: float,
    burst: int,
    pause_after_blocks: int,
    pause_s: float,
    recover_s: float,
) -> None:
    """Write the settings of an egress; its pace and its circuit breaker stay as they are."""


@query
def report_blocked_bot(
    *,
    pool_name: PoolName,
    assignment_id: AssignmentId,
    lowest_pace: float = LOWEST_PACE,
    longest_pause_s: float = LONGEST_PAUSE_S,
    lowered_reason: str = reasons.BOT_BLOCKED,
    opened_reason: str = reasons.BOTS_BLOCKED,
) -> BlockedEgress | None:
    """Lower the pace of a pool's egress; None if the pool is not paced."""


@query
def report_admitted_bot(
    *,
    pool_name: PoolName,
    assignment_id: AssignmentId,
    lowest_pace: float = LOWEST_PACE,
    reason: str = reasons.PROBE_ADMITTED,
) -> AdmittedEgress | None:
    """Count blocks in a row anew; None if that changes nothing."""


@query
def list_egresses() -> list[EgressState]:
    """The egresses that pools use, with their pace and their circuit breaker now."""


@query
def reschedule_egresses(*, longest_pause_s: float = LONGEST_PAUSE_S) -> list[str]:
    """Correct the times of egresses that lie ahead after the clock was set back."""
