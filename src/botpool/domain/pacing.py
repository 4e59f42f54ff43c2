"""Pacing: how fast the bots of an egress start, and when they do not start at all.

An egress is the address from which bots join meetings. A meeting platform that sees too many joins
from one address blocks it. Each start spends a permit of its egress. Blocked bots lower the pace,
and many blocked bots in a row open a circuit breaker.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

LOWEST_PACE = 0.1
"""The fraction of the configured pace below which blocks do not lower it."""
LONGEST_PAUSE_S = 3600.0
"""Repeated pauses double up to this time."""


class Breaker(StrEnum):
    """The state of an egress's circuit breaker."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half_open"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pacing:
    """The pace of an egress, as the settings of its pools define it."""

    egress: str
    per_minute: float
    burst: int
    pause_after_blocks: int
    pause_s: float
    recover_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressState:
    """The pace and the circuit breaker of an egress now."""

    egress: str
    per_minute: float
    """The starts per minute that are allowed now."""
    configured_per_minute: float
    breaker: Breaker
    probe_at: datetime | None
    blocks_in_a_row: int
