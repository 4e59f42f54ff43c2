"""The statements of the hot path use their indexes and touch few rows, however much there is.

As the product runs them: planned once, without knowing what they will be asked for.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pytest
from explained import explained, read_whole, rows_read

from botpool.engine.wishes import Wish, columns
from botpool.store.migrations import migrate
from botpool.store.statements import sent_text

from postgres import TestPostgres
from replicas import MEET, wish

SLOTS = 20_000
QUEUED = 20_000
TOGETHER = 32
"""How many items a statement carries here."""

FILL = f"""
    INSERT INTO backends (name) VALUES ('process');
    INSERT INTO pools (platform, backend, image, max_size, heartbeats) VALUES
        ('google-meet', 'process', 'demo', {SLOTS}, 'required'),
        ('teams', 'process', 'demo', 0, 'required');
    INSERT INTO bots (
        platform, status, meeting_url, bot_display_name, bot_data, priority, queue_timeout_ms,
        correlation_id, created_at, queued_at, attempts, assignment_id)
    SELECT
        CASE WHEN n <= 5000 THEN 'google-meet' ELSE 'teams' END,
        CASE WHEN n <= 5000 THEN 'DEPLOYING' ELSE 'QUEUED' END,
        'u', 'n', '{{}}', 100, 1000, 'c', now(), now(), 1, CASE WHEN n <= 5000 THEN n END
    FROM generate_series(1, {5000 + QUEUED}) AS n;
    INSERT INTO assignments (bot_id, slot_id, slot_name, platform, attempt, warm, assigned_at)
    SELECT n, n, 's' || n, 'google-meet', 1, true, now() FROM generate_series(1, 5000) AS n;
    INSERT INTO bot_pool_queue (bot_id, platform, queued_at, timeout_at)
    SELECT id, platform, now(), now() + interval '1 hour' FROM bots WHERE status = 'QUEUED';
    INSERT INTO bot_pool_slots (
        platform, number, slot_name, backend, image, container_id, status, phase, assigned_bot_id,
        assignment_id, last_used_at, next_step_at)
    SELECT
        'google-meet', n, 'pool-google-meet-' || n, 'process', 'demo', 'c' || n,
        CASE WHEN n <= 2500 THEN 'deploying' WHEN n <= 5000 THEN 'releasing' ELSE 'idle' END,
        CASE WHEN n <= 2500 THEN 'starting' END, CASE WHEN n <= 5000 THEN n END,
        CASE WHEN n <= 5000 THEN n END, now(),
        CASE WHEN n <= 2500 THEN now() WHEN n <= 5000 THEN now() + interval '1 hour' END
    FROM generate_series(1, {SLOTS}) AS n;
    INSERT INTO history (kind, bot_id, slot_id, reason)
    SELECT 'bot.status', n % 5000 + 1, n % 5000 + 1, 'test' FROM generate_series(1, 50000) AS n;
"""


@pytest.fixture(scope="module")
def connection(postgres: TestPostgres) -> Iterator[psycopg.Connection]:
    """A large installation, seen as by a session of the product."""
    url = postgres.create_database()
    migrate(url)
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        with connection.transaction():
            connection.execute(FILL)
        connection.execute("VACUUM ANALYZE")
        connection.execute(sent_text("prepare_session"))
        yield connection
    postgres.drop_database(url)


def ids(first: int, count: int = TOGETHER) -> list[int]:
    return list(range(first, first + count))


def each(value: Any) -> list[Any]:
    return [value] * TOGETHER


def wishes(platform: Any) -> dict[str, Any]:
    several = [Wish(request=wish(platform), key=None)] * TOGETHER
    return columns(several, idempotency_days=7)


FREED = {
    "platform": MEET,
    "match_follows": False,
    "slot_ids": ids(2501),
    "assignment_ids": ids(2501),
    "versions": each(1),
    "statuses": each("idle"),
    "error_messages": each(None),
    "containers_gone": each(False),
    "reasons": each("test"),
}
ENDED = {
    "assignment_ids": ids(1),
    "versions": each(None),
    "statuses": each("CANCELLED"),
    "failure_codes": each(None),
    "failure_reasons": each(None),
    "reasons": each("test"),
    "hold_leases": each(False),
    "unheard_since": each(None),
}
LEASED = {"owner": "test", "lease_s": 20, "limit": TOGETHER, "backends": ["process"]}
BEATS = {"assignment_ids": ids(1), "bot_ids": ids(1)}


@pytest.mark.parametrize(
    ("name", "parameters", "rows"),
    [
        ("admit_to_idle_slots", wishes(MEET), 40 * TOGETHER),
        ("end_bots", ENDED, 20 * TOGETHER),
        ("free_slots", FREED, 20 * TOGETHER),
        ("record_heartbeats", BEATS, 20 * TOGETHER),
        ("lease_slots", LEASED, 20 * TOGETHER),
        # Everything that is due waits for the replicas of another backend.
        ("lease_slots", LEASED | {"backends": ["elsewhere"]}, 10),
        # Nobody waits in that pool, and nothing of it has to go: looked at, not counted.
        ("trim_pool", {"platform": MEET}, 10),
        ("match_queue", {"platform": MEET}, 10),
        ("grow_pool", {"platform": MEET}, 10),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_hot_statement_uses_its_indexes(
    connection: psycopg.Connection, name: str, parameters: Mapping[str, Any], rows: int
) -> None:
    plan = explained(connection, name, parameters)
    assert not read_whole(plan)
    assert rows_read(plan) <= rows


def test_strays_are_told_from_slots_by_reading_those_once(connection: psycopg.Connection) -> None:
    found = [f"stray-{n}" for n in range(100)]
    parameters = {"backend": "process", "container_ids": found, "names": found, "age_s": 600}
    plan = explained(connection, "note_strays", parameters)
    assert rows_read(plan) <= 2 * SLOTS


def test_a_newcomer_behind_many_is_not_counted_in(connection: psycopg.Connection) -> None:
    """Positions are counted up to a thousand, once for all who come together."""
    connection.execute("BEGIN")
    connection.execute("SELECT set_config('botpool.newcomers', '{5001}', true)")
    plan = explained(connection, "settle_newcomers", {}, in_transaction=True)
    connection.execute("ROLLBACK")
    assert rows_read(plan) <= 1_100
