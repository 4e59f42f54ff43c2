"""Recording of heartbeats, batched: many agents share one statement.

A heartbeat is committed before its response, and the response comes from the same statement.
Heartbeats that carry figures have a statement of their own, so that plain ones stay cheap.
While heartbeats cannot be written, `works` is False: that time is no silence of the agents.
"""

import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from botpool.domain.errors import DatabaseUnavailable
from botpool.domain.heartbeat import HeartbeatReport
from botpool.domain.ids import AssignmentId, BotId
from botpool.engine.runtime.batching import Batcher
from botpool.engine.runtime.clock import loop_time
from botpool.store.assignments import Heartbeat, record_heartbeat_reports, record_heartbeats
from botpool.store.database import Database

_MAX_BATCH = 1000
_MIN_INTERVAL_S = 0.005
"""Agents can wait for this: a heartbeat counts as lost only after minutes."""
_SLOW_S = 2.0
"""Heartbeats that take longer to write count as not written yet."""

_Key: TypeAlias = tuple[AssignmentId, BotId]
_Report: TypeAlias = tuple[_Key, HeartbeatReport]


@dataclass(slots=True)
class _Writes:
    """How the last statement of one kind went."""

    failed: bool = False
    since: float | None = None
    """Since when one is in progress."""

    @property
    def works(self) -> bool:
        return not self.failed and (self.since is None or loop_time() - self.since < _SLOW_S)

    @property
    def needs_a_check(self) -> bool:
        return self.failed and self.since is None


class Heartbeats:
    """Records heartbeats in batches."""

    def __init__(
        self, database: Database, *, on_written: Callable[[float], None] = lambda _: None
    ) -> None:
        """`on_written` is called with the time at which heartbeats were written."""
        self._database = database
        self._on_written = on_written
        # Two statements: one that works must not hide one that hangs.
        self._plain_writes = _Writes()
        self._report_writes = _Writes()
        self._plain: Batcher[_Key, Heartbeat | None] = Batcher(
            "heartbeats", self._record, max_batch=_MAX_BATCH, min_interval_s=_MIN_INTERVAL_S
        )
        self._reports: Batcher[_Report, Heartbeat | None] = Batcher(
            "heartbeats with figures",
            self._record_reports,
            max_batch=_MAX_BATCH,
            min_interval_s=_MIN_INTERVAL_S,
            distinct_by=lambda item: item[0],
        )

    async def record(
        self, assignment_id: AssignmentId, bot_id: BotId, report: HeartbeatReport | None = None
    ) -> Heartbeat | None:
        """Record a heartbeat; None if the assignment is not one of this bot."""
        key = (assignment_id, bot_id)
        if report is None or not report.has_figures:
            return await self._plain.submit(key)
        return await self._reports.submit((key, report))

    @property
    def works(self) -> bool:
        """Whether the last heartbeats were written, and those in progress not too slowly."""
        return self._plain_writes.works and self._report_writes.works

    async def check(self) -> None:
        """Write no heartbeats, if the last ones failed, to find out whether writing works again."""
        with contextlib.suppress(DatabaseUnavailable):
            if self._plain_writes.needs_a_check:
                await self._record([])
            if self._report_writes.needs_a_check:
                await self._record_reports([])

    async def _record(self, keys: Sequence[_Key]) -> list[Heartbeat | None]:
        statement = record_heartbeats(
            self._database,
            assignment_ids=[assignment_id for assignment_id, _ in keys],
            bot_ids=[bot_id for _, bot_id in keys],
        )
        return await self._written(statement, keys, self._plain_writes)

    async def _record_reports(self, items: Sequence[_Report]) -> list[Heartbeat | None]:
        keys = [key for key, _ in items]
        reports = [report for _, report in items]
        statement = record_heartbeat_reports(
            self._database,
            assignment_ids=[assignment_id for assignment_id, _ in keys],
            bot_ids=[bot_id for _, bot_id in keys],
            progress=[_to_json(report) for report in reports],
            last_media_at=[report.last_media_at for report in reports],
        )
        return await self._written(statement, keys, self._report_writes)

    async def _written(
        self, statement: Awaitable[list[Heartbeat]], keys: Sequence[_Key], writes: _Writes
    ) -> list[Heartbeat | None]:
        """Run a statement that records heartbeats, and return its rows in the order of the keys."""
        writes.since = loop_time()
        try:
            heartbeats = await statement
        except BaseException:
            writes.failed = True
            raise
        finally:
            writes.since = None
        writes.failed = False
        self._on_written(time.time())
        by_key = {(each.assignment_id, each.bot_id): each for each in heartbeats}
        return [by_key.get(key) for key in keys]


def _to_json(report: HeartbeatReport) -> str | None:
    return None if report.progress is None else json.dumps(report.progress)
