"""The database and the event loop that all runs of the state machine share."""

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
from tests.model.reference import TENANTS, HistoryRow
from tests.support.clock import Clock
from tests.support.invariants import ALWAYS

T = TypeVar("T")
_KEPT = "'test_clock', 'schema_migrations', 'audit_log'"
_TABLES = (
    "SELECT string_agg(quote_ident(tablename), ', ') AS names FROM pg_tables "
    f"WHERE schemaname = 'public' AND tablename NOT IN ({_KEPT})"
)
_HISTORY = (
    "SELECT h.id, h.xid, h.kind, h.bot_id, h.slot_name, h.assignment_id, h.from_state, h.to_state, "
    "b.failure_code FROM history h LEFT JOIN bots b ON b.id = h.bot_id "
    "WHERE h.id > %s AND h.kind IN"
    " ('bot.status', 'slot.status', 'slot.standby', 'slot.cordon', 'slot.delete_requested') "
    "ORDER BY h.id"
)
_BOTS = "SELECT id, status, attempts FROM bots ORDER BY id"
_SLOTS = (
    "SELECT id, slot_name, pool_name, status, cordoned, assigned_bot_id, assignment_id, "
    "container_id, run_id, standby, phase FROM bot_pool_slots ORDER BY id"
)
_QUEUE = "SELECT pool_name, bot_id FROM bot_pool_queue ORDER BY pool_name, priority, bot_id"

Row = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """The tables, the new history and the broken invariants after a step."""

    transactions: Sequence[Sequence[HistoryRow]]
    """History rows since the last snapshot, grouped by transaction."""
    bots: Sequence[Row]
    slots: Sequence[Row]
    queue: Sequence[Row]
    broken_invariants: dict[str, Sequence[Row]]
    unserved: Sequence[Row]


class ModelDatabase:
    """A database with a frozen clock, emptied before each run."""

    def __init__(self, url: str) -> None:
        Clock(url).freeze()
        self.loop = asyncio.new_event_loop()
        self.database = Database(url, max_connections=2)
        self.run(self.database.open())
        self.turn = asyncio.Lock()
        self.steps = 0
        self._connection = psycopg.connect(url, autocommit=True, row_factory=dict_row)
        self._connection.prepare_threshold = 0
        (row,) = self._connection.execute(_TABLES).fetchall()
        self._reset_statement = f"TRUNCATE {row['names']} RESTART IDENTITY"
        self._last_history_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
        self.run(self.database.close())
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def reset(self) -> None:
        self._connection.execute(self._reset_statement)
        for tenant_id, tenant in TENANTS.items():
            self._connection.execute(
                "INSERT INTO tenants (id, name, weight, max_live) VALUES (%s, %s, %s, %s)",
                [tenant_id, tenant.name, tenant.weight, tenant.max_live],
            )
        self._connection.execute("UPDATE test_clock SET moved_by = '0'")
        self._last_history_id = 0

    def set_clock(self, to_s: float) -> None:
        self._connection.execute(
            "UPDATE test_clock SET moved_by = make_interval(secs => %s)", [to_s]
        )

    def take_snapshot(self) -> Snapshot:
        """Read everything in one round trip, because this runs after every step."""
        names = [*ALWAYS.values(), "queue_is_matched"]
        with self._connection.pipeline():
            history = self._connection.execute(_HISTORY, [self._last_history_id])
            bots, slots, queue = map(self._connection.execute, (_BOTS, _SLOTS, _QUEUE))
            checks = [
                self._connection.execute(check_statement(name), ALL_HISTORY) for name in names
            ]
        rows = history.fetchall()
        self._last_history_id = max((row["id"] for row in rows), default=self._last_history_id)
        found = dict(zip(names, (check.fetchall() for check in checks), strict=True))
        unserved = found.pop("queue_is_matched")
        return Snapshot(
            transactions=[
                [_history_row(row) for row in group]
                for _, group in groupby(rows, lambda row: row["xid"])
            ],
            bots=bots.fetchall(),
            slots=slots.fetchall(),
            queue=queue.fetchall(),
            broken_invariants={name: rows for name, rows in found.items() if rows},
            unserved=unserved,
        )


def _history_row(row: Row) -> HistoryRow:
    return HistoryRow(
        kind=row["kind"],
        bot=row["bot_id"],
        slot=row["slot_name"],
        assignment=row["assignment_id"],
        old=row["from_state"],
        new=row["to_state"],
        code=row["failure_code"],
    )
