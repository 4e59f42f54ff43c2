"""Writes the phases of bots as spans, each when its phase has ended.

The source is history, read with a cursor, as webhooks read it: no statement that changes a bot
knows of traces. One replica at a time leases the cursor, reads a batch, sends its spans and moves
the cursor. If it dies before the spans were sent, another replica sends them after the lease; if
it dies after that, the other one sends them again, with the same ids. A collector that does not
answer only keeps the cursor where it is.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import groupby

import structlog

from botpool.domain.trace_context import trace_of
from botpool.domain.trace_spans import Span, TracedBot, TraceRow, spans_of
from botpool.engine.observability.metrics import Metrics
from botpool.store.database import Database
from botpool.store.traces import (
    TraceHistoryRow,
    begin_traces,
    lease_trace_cursor,
    move_trace_cursor,
    read_trace_history,
)

_log = structlog.get_logger()
LEASE_S = 30.0
"""Longer than a request to the collector may take; also the pause after one that failed."""
MAX_AGE = timedelta(hours=1)
"""Spans that ended longer ago are dropped: a collector that was away is not flooded."""
_BATCH = 500

Export = Callable[[Sequence[Span]], Awaitable[str | None]]
"""Sends spans; returns the problem if the collector did not take them."""


@dataclass(slots=True, kw_only=True)
class SpanWriter:
    """Reads history and writes the spans that it ends."""

    database: Database
    metrics: Metrics
    owner: str
    export: Export
    batch: int = _BATCH
    _has_begun: bool = field(default=False, init=False)

    async def write(self) -> bool:
        """Write the spans of new history. Returns False if there was none."""
        if not self._has_begun:
            await begin_traces(self.database)
            self._has_begun = True
        wrote = False
        while await self._write_batch():
            wrote = True
        return wrote

    async def _write_batch(self) -> bool:
        """Write one batch; return whether it was written."""
        cursor = await lease_trace_cursor(self.database, owner=self.owner, lease_s=LEASE_S)
        if cursor is None:
            return False
        rows = await read_trace_history(
            self.database,
            cursor_xid=cursor.cursor_xid,
            cursor_id=cursor.cursor_id,
            limit=self.batch,
        )
        spans = list(_new_spans(rows))
        recent = [span for span in spans if rows[0].now - span.ended_at <= MAX_AGE]
        self.metrics.spans_ended("dropped", len(spans) - len(recent))
        problem = await self.export(recent) if recent else None
        if problem is not None:
            self.metrics.spans_ended("failed", len(recent))
            _log.warning("traces.not_sent", spans=len(recent), problem=problem)
            return False
        self.metrics.spans_ended("sent", len(recent))
        moved = await move_trace_cursor(
            self.database,
            owner=self.owner,
            cursor_xid=rows[0].cursor_xid,
            cursor_id=rows[0].cursor_id,
        )
        return moved is not None


def _new_spans(rows: Sequence[TraceHistoryRow]) -> Iterator[Span]:
    """Yield the spans that rows of the batch ended, of bots whose trace is sampled."""
    for bot_id, group in groupby(rows, key=lambda row: row.bot_id):
        history = list(group)
        first = history[0]
        if bot_id is None or first.correlation_id is None:
            continue
        trace = trace_of(bot_id, first.correlation_id, first.traceparent)
        if not trace.is_sampled:
            continue
        bot = TracedBot(
            id=bot_id,
            pool_name=first.pool_name or "",
            tenant=first.tenant or "",
            correlation_id=first.correlation_id,
            trace=trace,
            rows=[_trace_row(row) for row in history],
        )
        new = {row.row_id for row in history if row.is_new}
        yield from (span for span in spans_of(bot) if span.ended_by in new)


def _trace_row(row: TraceHistoryRow) -> TraceRow:
    assert row.row_id is not None and row.at is not None
    assert row.kind is not None and row.reason is not None
    return TraceRow(
        id=row.row_id,
        at=row.at,
        kind=row.kind,
        from_state=row.from_state,
        to_state=row.to_state,
        slot_name=row.slot_name,
        reason=row.reason,
    )
