"""What all runs of the machine share, and what they are seen with: made once, emptied for each."""

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Self, TypeVar

import psycopg
from psycopg.rows import dict_row

from botpool.engine.maintenance.doctor.invariants import ALL_HISTORY
from botpool.store.database import Database
from botpool.store.readonly_connection import check_statement
from tests.model.reference import Move
from tests.support.clock import Clock
from tests.support.invariants import ALWAYS

T = TypeVar("T")
_KEPT = "'test_clock', 'yoyo_lock'"
_TABLES = (
    "SELECT string_agg(quote_ident(tablename), ', ') AS names FROM pg_tables "
    f"WHERE schemaname = 'public' AND tablename NOT LIKE '%yoyo%' AND tablename NOT IN ({_KEPT})"
)
_HISTORY = (
    "SELECT h.id, h.xid, h.kind, h.bot_id, h.slot_name, h.assignment_id, h.from_state, h.to_state, "
    "b.failure_code FROM history h LEFT JOIN bots b ON b.id = h.bot_id "
    "WHERE h.id > %s AND h.kind IN"
    " ('bot.status', 'slot.status', 'slot.cordon', 'slot.delete_requested') "
    "ORDER BY h.id"
)
_BOTS = "SELECT id, status, attempts FROM bots ORDER BY id"
_SLOTS = (
    "SELECT id, slot_name, pool_name, status, cordoned, assigned_bot_id, assignment_id, "
    "container_id FROM bot_pool_slots ORDER BY id"
)
_QUEUE = "SELECT pool_name, bot_id FROM bot_pool_queue ORDER BY pool_name, priority, bot_id"

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Sight:
    """Everything that is to be seen after a step."""

    transactions: Sequence[Sequence[Move]]
    """What was written into the history since the last look."""
    bots: Sequence[Row]
    slots: Sequence[Row]
    queue: Sequence[Row]
    broken: dict[str, Sequence[Row]]
    unserved: Sequence[Row]


class Theatre:
    def __init__(self, url: str) -> None:
        Clock(url).freeze()
        self.loop = asyncio.new_event_loop()
        self.database = Database(url, max_connections=2)
        self.run(self.database.open())
        self.turn = asyncio.Lock()
        self.steps = 0
        self._eye = psycopg.connect(url, autocommit=True, row_factory=dict_row)
        self._eye.prepare_threshold = 0
        (row,) = self._eye.execute(_TABLES).fetchall()
        self._empty = f"TRUNCATE {row['names']} RESTART IDENTITY"
        self._seen = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._eye.close()
        self.run(self.database.close())
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def empty(self) -> None:
        self._eye.execute(self._empty)
        self._eye.execute("UPDATE test_clock SET moved_by = '0'")
        self._seen = 0

    def move_clock(self, to_s: float) -> None:
        self._eye.execute("UPDATE test_clock SET moved_by = make_interval(secs => %s)", [to_s])

    def observe(self) -> Sight:
        """In one round trip: it is done after every step."""
        names = [*ALWAYS.values(), "queue_is_matched"]
        with self._eye.pipeline():
            history = self._eye.execute(_HISTORY, [self._seen])
            bots, slots, queue = map(self._eye.execute, (_BOTS, _SLOTS, _QUEUE))
            checks = [self._eye.execute(check_statement(name), ALL_HISTORY) for name in names]
        rows = history.fetchall()
        self._seen = max((row["id"] for row in rows), default=self._seen)
        found = dict(zip(names, (check.fetchall() for check in checks), strict=True))
        unserved = found.pop("queue_is_matched")
        return Sight(
            transactions=[
                [_move(row) for row in group] for _, group in groupby(rows, lambda row: row["xid"])
            ],
            bots=bots.fetchall(),
            slots=slots.fetchall(),
            queue=queue.fetchall(),
            broken={name: rows for name, rows in found.items() if rows},
            unserved=unserved,
        )


def _move(row: Row) -> Move:
    return Move(
        kind=row["kind"],
        bot=row["bot_id"],
        slot=row["slot_name"],
        assignment=row["assignment_id"],
        old=row["from_state"],
        new=row["to_state"],
        code=row["failure_code"],
    )
