"""Statements about traces: the cursor over history, and the history of traced bots."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from botpool.domain.ids import BotId
from botpool.domain.trace_spans import KINDS
from botpool.store.query import query


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceCursor:
    """Up to where history was written as spans."""

    cursor_xid: int
    cursor_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceHistoryRow:
    """The position after a batch, and a row of a bot that the batch concerns; None without any."""

    cursor_xid: int
    cursor_id: int
    now: datetime
    bot_id: BotId | None
    pool_name: str | None
    tenant: str | None
    correlation_id: str | None
    traceparent: str | None
    row_id: int | None
    at: datetime | None
    kind: str | None
    from_state: str | None
    to_state: str | None
    slot_name: str | None
    reason: str | None
    is_new: bool


@query
def begin_traces() -> None:
    """Begin to write history as spans from now on, unless an earlier replica has begun."""


@query
def lease_trace_cursor(*, owner: str, lease_s: float) -> TraceCursor | None:
    """Lease the cursor; None if there is no new history, or if another replica writes."""


@query
def read_trace_history(
    *, cursor_xid: int, cursor_id: int, limit: int, kinds: Sequence[str] = KINDS
) -> list[TraceHistoryRow]:
    """Read the next batch of history, with the whole history of the bots that it concerns."""


@query
def move_trace_cursor(*, owner: str, cursor_xid: int, cursor_id: int) -> int | None:
    """Store the position after a batch and return the lease; None if the lease has ended."""
