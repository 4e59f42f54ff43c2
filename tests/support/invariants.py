"""Assertions of the invariants on a live database, at the end of every scenario.

The invariants are those of the doctor: one SQL file each.
"""

import psycopg

from botpool.engine.maintenance.doctor.invariants import ALL_HISTORY, INVARIANTS, Kind
from botpool.store.readonly_connection import check_statement

ALWAYS = {each.meaning: each.name for each in INVARIANTS if each.kind is Kind.ALWAYS}


def broken_invariants(url: str) -> dict[str, list[tuple[object, ...]]]:
    with psycopg.connect(url) as connection:
        found = {
            meaning: connection.execute(check_statement(name), ALL_HISTORY).fetchall()
            for meaning, name in ALWAYS.items()
        }
    return {meaning: rows for meaning, rows in found.items() if rows}


def assert_invariants(url: str) -> None:
    broken = broken_invariants(url)
    assert not broken, f"broken invariants: {broken}"


def assert_settled(url: str) -> None:
    """Assert that all bots have ended and no slot has a bot."""
    assert_invariants(url)
    with psycopg.connect(url) as connection:
        restless = connection.execute(
            "SELECT id, status FROM bots WHERE status NOT IN ('DONE', 'FAILED', 'CANCELLED')"
        ).fetchall()
        occupied = connection.execute(
            "SELECT slot_name, status FROM bot_pool_slots WHERE assigned_bot_id IS NOT NULL"
        ).fetchall()
    assert not restless, f"bots that never ended: {restless}"
    assert not occupied, f"slots that are still occupied: {occupied}"
