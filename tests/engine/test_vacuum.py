"""Dead rows are cleared away in a burst, and not in vain while somebody looks at an old state."""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.support.planting import planted
from tests.support.replicas import Stage, pool

SLOTS = 600
ENOUGH = 10
"""Writes of each slot that leave more dead rows than are left alone."""


class Slots:
    """Written over and over, in a session that tells at once what it has counted."""

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
        # Not by the server itself, in the middle of a test.
        connection.execute("ALTER TABLE bot_pool_slots SET (autovacuum_enabled = off)")
        try:
            yield Slots(connection)
        finally:
            connection.execute("DELETE FROM bot_pool_slots")  # They have no history.


async def test_many_dead_rows_are_cleared_away(stage: Stage) -> None:
    tidying = (await stage.replica(pool(SLOTS))).vacuum
    with many_slots(stage.url) as slots:
        slots.write(1)
        await tidying.tidy()
        assert slots.vacuums == 0, "a few are hardly noticed"
        slots.write(ENOUGH)
        await tidying.tidy()
        assert slots.vacuums == 1
        await tidying.tidy()
        assert slots.vacuums == 1, "they are gone"
        slots.write(ENOUGH)
        await tidying.tidy()
        assert slots.vacuums == 2


async def test_rows_that_somebody_still_sees_are_not_cleared_in_vain(stage: Stage) -> None:
    tidying = (await stage.replica(pool(SLOTS))).vacuum
    with many_slots(stage.url) as slots, psycopg.connect(stage.url) as reader:
        reader.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        reader.execute("SELECT FROM bot_pool_slots")
        slots.write(ENOUGH)
        await tidying.tidy()
        assert slots.vacuums == 1
        slots.write(ENOUGH)
        await tidying.tidy()
        assert slots.vacuums == 1, "none of them could go"
        reader.rollback()
        slots.write(2 * ENOUGH)
        await tidying.tidy()
        assert slots.vacuums == 2
        slots.write(ENOUGH)
        await tidying.tidy()
        assert slots.vacuums == 3, "as soon as it pays, again"


async def test_a_vacuum_that_fails_is_not_repeated_at_once(stage: Stage) -> None:
    tidying = (await stage.replica(pool(SLOTS))).vacuum
    with many_slots(stage.url) as slots:
        slots.write(ENOUGH)
        with planted(vacuum_tables="SELECT 1 / 0"):
            with pytest.raises(psycopg.errors.DivisionByZero):
                await tidying.tidy()
            await tidying.tidy()
        slots.write(3 * ENOUGH)
        await tidying.tidy()
        assert slots.vacuums == 1


async def test_who_finds_another_at_it_does_nothing(stage: Stage) -> None:
    tidying = (await stage.replica(pool(SLOTS))).vacuum
    with many_slots(stage.url) as slots, psycopg.connect(stage.url) as other:
        slots.write(ENOUGH)
        other.execute("LOCK TABLE bot_pool_slots IN SHARE UPDATE EXCLUSIVE MODE")
        await tidying.tidy()
        assert slots.vacuums == 0
        other.rollback()
