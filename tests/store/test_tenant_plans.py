"""Statements of fair share do constant work, whatever the number of tenants and queued bots."""

import psycopg

from botpool.domain.ids import PoolName
from botpool.store import queue, turns
from botpool.store.migrator import migrate
from botpool.store.sessions import SessionTimeouts
from botpool.store.statements import sent_text
from tests.store.query_plans import execute_planned, plan
from tests.support.postgres import TestPostgres

QUEUED = 20_000
WEBEX = PoolName("webex")


def contended(*, tenants: int) -> str:
    """Return SQL that fills a pool with one idle slot and a queue of so many tenants."""
    return f"""
    INSERT INTO backends (name) VALUES ('process');
    INSERT INTO pools (pool_name, backend, image, max_size, heartbeats)
    VALUES ('{WEBEX}', 'process', 'demo', 1, 'required');
    INSERT INTO tenants (name) SELECT 't' || n FROM generate_series(2, {tenants}) AS n;
    INSERT INTO bots (
        id, tenant_id, pool_name, status, meeting_url, bot_display_name, bot_data, priority,
        queue_timeout_ms, correlation_id, created_at, queued_at)
    SELECT
        n, n % {tenants} + 1, '{WEBEX}', 'QUEUED', 'u', 'n', '{{}}', 100, 1000, 'c', now(), now()
    FROM generate_series(1, {QUEUED}) AS n;
    INSERT INTO bot_pool_queue (bot_id, tenant_id, pool_name, queued_at, timeout_at)
    SELECT id, tenant_id, pool_name, now(), now() + interval '1 hour' FROM bots;
    INSERT INTO bot_pool_slots (pool_name, number, slot_name, backend, image)
    VALUES ('{WEBEX}', 1, 'pool-{WEBEX}-1', 'process', 'demo');
    """


def rows_of_claim(postgres: TestPostgres, *, tenants: int) -> int:
    """Count the rows that one claim reads, also those that its functions read."""
    url = postgres.create_database()
    migrate(url)
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        with connection.transaction():
            connection.execute(contended(tenants=tenants))
        refresh = turns.refresh_turns.statement(pool_name=WEBEX)
        connection.execute(sent_text(refresh.name), refresh.parameters)
        connection.execute("VACUUM ANALYZE")
    # A new session, whose statistics count this transaction alone.
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        prepare = SessionTimeouts.of(30.0).statement()
        connection.execute(sent_text(prepare.name), prepare.parameters)
        claim = queue.match_queue.statement(pool_name=WEBEX)
        plan(connection, claim.name, claim.parameters)
        with connection.transaction():
            executed = execute_planned(connection, claim.name, claim.parameters)
            assert executed["Actual Rows"] == 1
            read = connection.execute(
                "SELECT relname, seq_tup_read, coalesce(idx_tup_fetch, 0)"
                " FROM pg_stat_xact_user_tables WHERE schemaname = 'public'"
            ).fetchall()
    postgres.drop_database(url)
    scanned = [table for table, rows, _ in read if rows > 5]
    assert not scanned, "a claim scans whole tables"
    return sum(rows + fetched for _, rows, fetched in read)


def test_claim_reads_as_many_rows_with_a_thousand_tenants_as_with_one(
    postgres: TestPostgres,
) -> None:
    """With turns, a claim adds two index probes: the first turn and the head of its tenant."""
    one = rows_of_claim(postgres, tenants=1)
    few = rows_of_claim(postgres, tenants=2)
    many = rows_of_claim(postgres, tenants=1_000)
    assert 0 < many <= few <= one + 20, (one, few, many)
