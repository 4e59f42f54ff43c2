"""The statements that replicas run each second for webhooks read few rows of large tables."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from botpool.domain.webhook_events import SOURCES
from botpool.store import webhooks
from botpool.store.query import Statement
from botpool.store.sessions import SessionTimeouts
from botpool.store.statements import sent_text
from tests.store.query_plans import explain, scanned_tables
from tests.support.postgres import TestPostgres

LARGE = {"history", "webhook_deliveries", "bots"}
FILLING = """
INSERT INTO bots (id, pool_name, status, meeting_url, bot_display_name, bot_data, priority,
                  queue_timeout_ms, correlation_id, created_at, ended_at)
SELECT n, 'zoom', 'CANCELLED', 'u', 'n', '{}', 100, 0, 'c', now(), now()
FROM generate_series(1, 5000) AS n;
INSERT INTO history (xid, kind, bot_id, to_state, reason)
SELECT '3', 'bot.status', 1 + n % 5000, 'DONE', 'r' FROM generate_series(1, 50000) AS n;
INSERT INTO webhooks (url, sealed_secret, created_by)
SELECT 'https://example.org', '', 'k' FROM generate_series(1, 10);
INSERT INTO webhook_deliveries (webhook_id, event_id, history_id, bot_id, type, payload, status)
SELECT 1 + n % 10, 'e' || n, n, n % 5000, 'bot.done', '{}', 'delivered'
FROM generate_series(1, 50000) AS n;
INSERT INTO webhook_deliveries (
    webhook_id, event_id, history_id, bot_id, type, payload, next_attempt_at)
SELECT 1 + n % 10, 'p' || n, 50000 + n, n % 5000, 'bot.done', '{}', now() + interval '1 hour'
FROM generate_series(1, 2000) AS n;
"""


@pytest.fixture(scope="module")
def connection(postgres: TestPostgres, template: str) -> Iterator[psycopg.Connection]:
    url = postgres.create_database(template)
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        connection.execute(FILLING)
        connection.execute("VACUUM ANALYZE")
        prepare = SessionTimeouts.of(30.0).statement()
        connection.execute(sent_text(prepare.name), prepare.parameters)
        yield connection
    postgres.drop_database(url)


READ: dict[str, Any] = {
    "cursor_id": 0,
    "limit": 500,
    "kinds": [source.kind for source in SOURCES],
    "states": [source.to_state for source in SOURCES],
    "types": [source.type.value for source in SOURCES],
    "events": None,
    "tenant_id": None,
}


@pytest.mark.parametrize(
    "statement",
    [
        webhooks.find_webhook_work.statement(max_pending=5000),
        webhooks.lease_webhook_deliveries.statement(
            webhook_id=1, limit=8, paused_after=8, lease_s=30
        ),
        webhooks.read_webhook_events.statement(cursor_xid=2**40, **READ),
        webhooks.record_attempts.statement(
            webhook_id=1,
            ids=[50001],
            attempts=[0],
            statuses=["delivered"],
            delays_ms=[None],
            response_statuses=[204],
            response_bodies=[""],
            problems=[None],
            durations_ms=[1],
            pause_s=None,
            paused_after=8,
            failing_pause_s=60,
            is_gone=False,
            gone_reason="",
            failing_reason="",
            disabled_after_days=5,
        ),
    ],
    ids=lambda statement: statement.name,
)
def test_statement_of_each_second_scans_no_large_table(
    connection: psycopg.Connection, statement: Statement[Any]
) -> None:
    plan = explain(connection, statement.name, statement.parameters)
    assert not LARGE & set(scanned_tables(plan))
