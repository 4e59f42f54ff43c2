"""Vacuum removes many dead rows, and not again while an old transaction keeps them."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.support.replaced_statements import replaced_statements
from tests.support.replicas import Stage, pool

SLOTS = 600
WRITES = 10
"""Writes of each slot that leave enough dead rows for a vacuum."""


class Slots:
    """Writes slots repeatedly and flushes the statistics at once."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def write(self, times: int) -> None:
        for _ in range(times):
            self._connection.execute(
                "UPDATE bot_pool_slots SET last_used_at = clock_timestamp(), version = version + 1"
            )
        self._connection.execute("SELECT pg_stat_force_next_flush()")

    @property
    def vacuums(self) -> int:
        row = self._connection.execute(
            "SELECT vacuum_count FROM pg_stat_user_tables WHERE relname = 'bot_pool_slots'"
        ).fetchone()
        assert row is not None
        return int(row[0])


@contextmanager
def many_slots(url: str) -> Iterator[Slots]:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO bot_pool_slots (pool_name, number, slot_name, backend, image) "
            "SELECT 'google-meet', n, 'pool-google-meet-' || n, 'process', 'demo' "
            f"FROM generate_series(1, {SLOTS}) AS n"
        )
        # Autovacuum in the middle of a test would change the counts.
        connection.execute("ALTER TABLE bot_pool_slots SET (autovacuum_enabled = off)")
        try:
            yield Slots(connection)
        finally:
            connection.execute(
                "DELETE FROM bot_pool_slots"
            )  # These slots have no history, which the invariants would miss.


async def test_many_dead_rows_are_vacuumed(stage: Stage) -> None:
    vacuum = (await stage.replica(pool(SLOTS))).vacuum
    with many_slots(stage.url) as slots:
        slots.write(1)
        await vacuum.vacuum_if_due()
        assert slots.vacuums == 0, "too few dead rows"
        slots.write(WRITES)
        await vacuum.vacuum_if_due()
        assert slots.vacuums == 1
        await vacuum.vacuum_if_due()
        assert slots.vacuums == 1, "no dead rows are left"
        slots.write(WRITES)
        await vacuum.vacuum_if_due()
        assert slots.vacuums == 2


async def test_vacuum_is_not_repeated_while_a_transaction_keeps_rows(stage: Stage) -> None:
    vacuum = (await stage.replica(pool(SLOTS))).vacuum
    with many_slots(stage.url) as slots, psycopg.connect(stage.url) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("SELECT FROM bot_pool_slots")
        slots.write(WRITES)
        await vacuum.vacuum_if_due()
        assert slots.vacuums == 1
        slots.write(WRITES)
        await vacuum.vacuum_if_due()
        assert slots.vacuums == 1, "no row could be removed"
        reader.rollback()
        slots.write(2 * WRITES)
        await vacuum.vacuum_if_due()
        assert slots.vacuums == 2
        slots.write(WRITES)
        await vacuum.vacuum_if_due()
        assert slots.vacuums == 3, "the next vacuum pays again"


async def test_failed_vacuum_is_not_repeated_at_once(stage: Stage) -> None:
    vacuum = (await stage.replica(pool(SLOTS))).vacuum
    with many_slots(stage.url) as slots:
        slots.write(WRITES)
        with replaced_statements(vacuum_tables="SELECT 1 / 0"):
            with pytest.raises(psycopg.errors.DivisionByZero):
                await vacuum.vacuum_if_due()
            await vacuum.vacuum_if_due()
        slots.write(3 * WRITES)
        await vacuum.vacuum_if_due()
        assert slots.vacuums == 1


async def test_locked_table_is_skipped(stage: Stage) -> None:
    vacuum = (await stage.replica(pool(SLOTS))).vacuum
    with many_slots(stage.url) as slots, psycopg.connect(stage.url) as other:
        slots.write(WRITES)
        other.execute("LOCK TABLE bot_pool_slots IN SHARE UPDATE EXCLUSIVE MODE")
        await vacuum.vacuum_if_due()
        assert slots.vacuums == 0
        other.rollback()
