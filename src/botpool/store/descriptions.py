"""Statements about the descriptions that slots have on their backend."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from botpool.domain.ids import BotId, ContainerId, SlotId
from botpool.domain.states import SlotStatus
from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasedDescription:
    """A slot whose description is out of date, and the state to describe."""

    slot_id: SlotId
    backend: str
    container_id: ContainerId
    status: SlotStatus
    bot_id: BotId | None
    last_used_at: datetime | None
    last_released_at: datetime | None
    phase_at: datetime | None
    error_message: str | None
    error_at: datetime | None
    created_at: datetime
    handed_over: bool
    """Whether the slot got its next bot before its release was described."""
    state: str
    """Identifies the described state, to detect the next change."""
    hold_until: datetime
    """The end of the lease."""
    correlation_id: str | None


@query
def lease_descriptions(
    *, backends: Sequence[str], limit: int, hold_s: float
) -> list[LeasedDescription]:
    """Lease the descriptions that are out of date."""


@query
def record_description(
    *, slot_id: SlotId, state: str, released_at: datetime | None, hold_until: datetime
) -> None:
    """Record that a description was written, and end its lease."""
