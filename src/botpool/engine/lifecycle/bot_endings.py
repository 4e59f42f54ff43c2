"""Ends of bots that are in a slot, gathered: meetings end on the hour, as they begin on it.

One statement ends the bots and begins the release of their slots, each fenced by its own
assignment. What happens if the process dies: before the commit the bots live, and the report, the
look or the deadline comes again; after it, the slots say that they want to be released. Twice: the
second finds a slot that is already released.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

from botpool.domain.bot_ending import BotEnding
from botpool.domain.ids import AssignmentId
from botpool.domain.states import SlotStatus
from botpool.engine.observability import event_log
from botpool.engine.observability.metrics import Metrics
from botpool.engine.runtime.batching import Batcher
from botpool.engine.runtime.wakeups import Wakeups
from botpool.store.database import Database
from botpool.store.rows import to_slot_change

_AT_ONCE = 64
"""More would cost each more: the statement's joins are planned for a few."""

_Row: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    assignment_id: AssignmentId
    version: int | None
    ending: BotEnding
    holds_lease: bool
    silent_since: datetime | None


class BotEndings:
    def __init__(self, database: Database, wakeups: Wakeups, metrics: Metrics) -> None:
        self._database = database
        self._wakeups = wakeups
        self._metrics = metrics
        self._ends: Batcher[_End, _Row | None] = Batcher(
            "end bots",
            self._end,
            max_batch=_AT_ONCE,
            max_in_flight=2,
            distinct_by=lambda end: end.assignment_id,
            is_idle=database.is_idle,
        )

    async def end(
        self,
        assignment_id: AssignmentId,
        ending: BotEnding,
        *,
        version: int | None,
        holds_lease: bool,
        silent_since: datetime | None,
    ) -> bool:
        """False: nothing was changed."""
        row = await self._ends.submit(
            _End(
                assignment_id=assignment_id,
                version=version,
                ending=ending,
                holds_lease=holds_lease,
                silent_since=silent_since,
            )
        )
        return row is not None

    async def _end(self, ends: Sequence[_End]) -> list[_Row | None]:
        endings = [end.ending for end in ends]
        rows = await self._database.fetch(
            "end_bots",
            {
                "assignment_ids": [end.assignment_id for end in ends],
                "versions": [end.version for end in ends],
                "statuses": [ending.status for ending in endings],
                "failure_codes": [ending.failure_code for ending in endings],
                "failure_reasons": [
                    ending.reason if ending.failure_code else None for ending in endings
                ],
                "reasons": [ending.reason for ending in endings],
                "hold_leases": [end.holds_lease for end in ends],
                "silent_since": [end.silent_since for end in ends],
            },
        )
        found = {row["assignment_id"]: row for row in rows}
        ended: list[_Row | None] = [found.get(end.assignment_id) for end in ends]
        if rows:
            self._wakeups.slots_due()
            # Apart from the work, which is committed and would be done again if this failed; its
            # turn still comes before that of those who wait for their answers.
            asyncio.get_running_loop().call_soon(self._tell, endings, ended)
        return ended

    def _tell(self, endings: Sequence[BotEnding], rows: Sequence[_Row | None]) -> None:
        moved = [(row, end) for row, end in zip(rows, endings, strict=True) if row is not None]
        event_log.bots_ended(
            event_log.End(to_slot_change(row), SlotStatus(row["slot_status"]), end)
            for row, end in moved
        )
        counts = Counter((row["pool_name"], end.status, end.failure_code) for row, end in moved)
        for (pool_name, status, code), bots in counts.items():
            self._metrics.bots_ended(pool_name, status, code, bots=bots)
