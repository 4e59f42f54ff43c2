"""Statements about the descriptions that slots have on their backend."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from botpool.domain.ids import BotId, ContainerId, SlotId
from botpool.domain.states import SlotStatus
from botpool.store.statement import Statement, no_rows, record_of


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedDescription:
    """A slot whose description is out of date, and the state to describe."""

    slot_id: SlotId
    backend: str
    container_id: ContainerId
    status: SlotStatus
    bot_id: BotId | None
    last_used_at: datetime | None
    phase_at: datetime | None
    error_message: str | None
    created_at: datetime
    state: str
    """Identifies the described state, to detect the next change."""
    hold_until: datetime
    """The end of the lease."""
    correlation_id: str | None


def lease_descriptions(
    *, backends: Sequence[str], limit: int, hold_s: float
) -> Statement[LeasedDescription]:
    """Lease the descriptions that are out of date."""
    parameters = {"backends": list(backends), "limit": limit, "hold_s": hold_s}
    return Statement("lease_descriptions", parameters, record_of(LeasedDescription))


def record_description(description: LeasedDescription) -> Statement[None]:
    """Record that a description was written, and end its lease."""
    parameters = {
        "slot_id": description.slot_id,
        "state": description.state,
        "hold_until": description.hold_until,
    }
    return Statement("record_description", parameters, no_rows)
