"""What must always hold, asked of a live database. Every scenario ends with it.

The rules are the doctor's: one file of SQL each, for tests and for operators.
"""

import psycopg

from botpool.engine.maintenance.doctor.rules import EVERYTHING, RULES
from botpool.store.readonly_connection import check_statement

ALWAYS = {rule.meaning: rule.name for rule in RULES if rule.always}


def broken_invariants(url: str) -> dict[str, list[tuple[object, ...]]]:
    with psycopg.connect(url) as connection:
        found = {
            meaning: connection.execute(check_statement(name), EVERYTHING).fetchall()
            for meaning, name in ALWAYS.items()
        }
    return {rule: rows for rule, rows in found.items() if rows}


def assert_invariants(url: str) -> None:
    broken = broken_invariants(url)
    assert not broken, f"broken invariants: {broken}"


def assert_settled(url: str) -> None:
    """Everything has come to rest: all bots final, no queue, no slot with a bot."""
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
