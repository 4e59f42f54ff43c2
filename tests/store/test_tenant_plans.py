"""Statements of fair share do constant work, whatever the number of tenants and queued bots."""

from collections import Counter

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


# The turn of a tenant that waits alone, from the time when others waited too.
ONLY_TURN = f"""
    INSERT INTO tenant_turns (pool_name, tenant_id, in_use, weight, pass, waits)
    VALUES ('{WEBEX}', 1, 0, 1, 0, true)
"""


def rows_of_claim(postgres: TestPostgres, *, tenants: int, shared: bool = True) -> Counter[str]:
    """Count the rows of each table that one claim reads, also those that its functions read.

    `shared` chooses the statement with turns; else the statement of installations with one tenant.
    """
    url = postgres.create_database()
    migrate(url)
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        with connection.transaction():
            connection.execute(contended(tenants=tenants))
        refresh = turns.refresh_turns.statement(pool_name=WEBEX)
        connection.execute(sent_text(refresh.name), refresh.parameters)
        if shared and tenants == 1:
            connection.execute(ONLY_TURN)
        connection.execute("VACUUM ANALYZE")
    # A new session, whose statistics count this transaction alone.
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        prepare = SessionTimeouts.of(30.0).statement()
        connection.execute(sent_text(prepare.name), prepare.parameters)
        match = queue.match_shared_queue if shared else queue.match_queue
        claim = match.statement(pool_name=WEBEX)
        plan(connection, claim.name, claim.parameters)
        with connection.transaction():
            executed = execute_planned(connection, claim.name, claim.parameters)
            assert executed["Actual Rows"] == 1
            read = connection.execute(
                "SELECT relname, seq_tup_read, coalesce(idx_tup_fetch, 0)"
                " FROM pg_stat_xact_user_tables WHERE schemaname = 'public'"
            ).fetchall()
    postgres.drop_database(url)
    scanned = [table for table, rows, _ in read if rows]
    assert not scanned, "a claim scans whole tables"
    return +Counter({table: fetched for table, _, fetched in read})


def test_claim_reads_as_many_rows_with_a_thousand_tenants_as_with_one(
    postgres: TestPostgres,
) -> None:
    """All of them measured with the same statement."""
    one = rows_of_claim(postgres, tenants=1)
    few = rows_of_claim(postgres, tenants=2)
    many = rows_of_claim(postgres, tenants=1_000)
    assert many == one
    assert many.total() == 14, many
    # With two turns, PostgreSQL 15 reads both to update one.
    assert few - many in (Counter(), Counter(tenant_turns=1))
    assert not many - few


def test_turns_add_five_rows_to_a_claim(postgres: TestPostgres) -> None:
    """The statement of installations with one tenant reads nine: see decision 0056."""
    alone = rows_of_claim(postgres, tenants=1, shared=False)
    assert alone.total() <= 9, alone
    # The first turn and its update; for the queue row its lock, its own count and the next head.
    turns_of_one = rows_of_claim(postgres, tenants=1) - alone
    assert turns_of_one == Counter(tenant_turns=2, bot_pool_queue=3)
