"""From the first release's schema, full of data in the middle of its life, to this one."""

from collections.abc import Iterator
from importlib.resources import as_file, files

import psycopg
import pytest
from yoyo import get_backend, read_migrations

from botpool.domain.ids import BotId
from botpool.domain.tokens import hash_api_key, new_api_key, shown_prefix
from botpool.store.migrations import check_schema, known_migrations, migrate
from tests.support.clock import Clock
from tests.support.invariants import assert_invariants
from tests.support.postgres import TestPostgres
from tests.support.replicas import Stage, pool

FIRST = "0001_initial"

DATA = """
INSERT INTO pools (pool_name, backend, image, max_size, heartbeats)
VALUES ('google-meet', 'process', 'demo', 5, 'required');

INSERT INTO bots (
    id, pool_name, status, meeting_url, bot_display_name, bot_data, priority, queue_timeout_ms,
    correlation_id, attempts, assignment_id, slot_name, container_id, created_at, queued_at,
    assigned_at, started_at, ended_at)
SELECT
    b.id, 'google-meet', b.status, 'https://meet.google.com/abc-defg-hij', 'Botpool', '{}', 100,
    300000, 'corr-' || b.id, (b.slot IS NOT NULL)::int, b.slot,
    CASE WHEN b.slot IS NOT NULL THEN format('pool-google-meet-00%s', b.slot) END,
    CASE WHEN b.slot IS NOT NULL THEN 'container-' || b.slot END,
    now(), CASE WHEN b.status = 'QUEUED' THEN now() END,
    CASE WHEN b.slot IS NOT NULL THEN now() END,
    CASE WHEN b.status IN ('IN_CALL', 'DONE') THEN now() END,
    CASE WHEN b.status = 'DONE' THEN now() END
FROM (VALUES (1, 'IN_CALL', 1), (2, 'DEPLOYING', 2), (3, 'DONE', 3), (4, 'QUEUED', NULL))
    AS b (id, status, slot);

INSERT INTO assignments (
    id, bot_id, slot_id, slot_name, pool_name, attempt, warm, container_id, assigned_at, running_at)
SELECT
    n, n, n, format('pool-google-meet-00%s', n), 'google-meet', 1, false, 'container-' || n, now(),
    CASE WHEN n <> 2 THEN now() END
FROM generate_series(1, 3) AS n;

INSERT INTO bot_pool_slots (
    id, pool_name, number, slot_name, backend, image, container_id, status, phase, phase_at,
    assigned_bot_id, assignment_id, last_assigned_at, last_used_at, error_message, next_step_at,
    start_issued_at)
SELECT
    s.id, 'google-meet', s.id, format('pool-google-meet-00%s', s.id), 'process', 'demo',
    'container-' || s.id, s.status, s.phase, now(), s.bot, s.bot,
    CASE WHEN s.bot IS NOT NULL THEN now() END, CASE WHEN s.bot IS NOT NULL THEN now() END,
    CASE WHEN s.status = 'error' THEN 'it was broken' END,
    CASE WHEN s.status <> 'busy' THEN now() END, CASE WHEN s.id IN (1, 3) THEN now() END
FROM (VALUES
    (1, 'busy', NULL, 1), (2, 'deploying', 'starting', 2), (3, 'releasing', NULL, 3),
    (4, 'error', NULL, NULL), (5, 'error', NULL, NULL)) AS s (id, status, phase, bot);

INSERT INTO bot_pool_queue (bot_id, pool_name, priority, queued_at, timeout_at)
VALUES (4, 'google-meet', 100, now(), now() + interval '5 minutes');

INSERT INTO bot_heartbeats (bot_id, assignment_id, last_at) VALUES (1, 1, now());

INSERT INTO history (
    kind, bot_id, slot_id, assignment_id, slot_name, to_state, reason, correlation_id)
SELECT 'bot.status', id, NULL, assignment_id, slot_name, status, 'as it was', correlation_id
FROM bots
UNION ALL
SELECT 'slot.status', assigned_bot_id, id, assignment_id, slot_name, status, 'as it was', NULL
FROM bot_pool_slots;

INSERT INTO idempotency_keys (api_key_id, key, body_hash, bot_id, created_at)
VALUES (1, 'again', 'body', 1, now());

SELECT setval(pg_get_serial_sequence('bots', 'id'), 100);
SELECT setval(pg_get_serial_sequence('assignments', 'id'), 100);
SELECT setval(pg_get_serial_sequence('bot_pool_slots', 'id'), 100);
"""


@pytest.fixture
def old_url(postgres: TestPostgres) -> Iterator[str]:
    """A database as the first release left it."""
    url = postgres.create_database()
    backend = get_backend("postgresql+psycopg:" + url.partition(":")[2])
    with as_file(files("botpool.store") / "sql" / "migrations") as folder, backend.lock():
        every = read_migrations(str(folder))
        first = every.filter(lambda migration: migration.id == FIRST)
        backend.apply_migrations(backend.to_apply(first))
    backend.connection.close()
    with psycopg.connect(url) as connection:
        connection.execute(DATA)
    yield url
    postgres.drop_database(url)


def columns(url: str) -> set[tuple[object, ...]]:
    with psycopg.connect(url) as connection:
        return set(
            connection.execute(
                "SELECT table_name, column_name, data_type, is_nullable, column_default"
                " FROM information_schema.columns WHERE table_schema = 'public'"
                " AND table_name NOT LIKE '%yoyo%' AND table_name <> 'test_clock'"
            ).fetchall()
        )


def test_an_upgraded_schema_is_a_new_one(old_url: str, template: str) -> None:
    assert migrate(old_url) == [name for name in known_migrations() if name != FIRST]
    assert columns(old_url) == columns(template)


async def test_what_was_under_way_goes_on_after_the_upgrade(old_url: str) -> None:
    key = new_api_key()
    with psycopg.connect(old_url) as connection:
        connection.execute(
            "INSERT INTO api_keys (name, scope, prefix, key_hash) VALUES ('old', 'admin', %s, %s)",
            [shown_prefix(key), hash_api_key(key)],
        )
    migrate(old_url)
    clock = Clock(old_url)
    clock.install()
    assert_invariants(old_url)
    async with Stage.set(old_url, clock) as stage:
        replica = await stage.replica(pool(5))
        check_schema(await replica.database.applied_migrations())
        assert await replica.api_keys.find(key) is not None
        await stage.settle(replica)
        busy, deploying, done, queued = (stage.bot(BotId(number)) for number in range(1, 5))
        # Its pool_name lost the container: the bot that ran in it has ended, the others run anew.
        assert (busy["status"], busy["failure_code"]) in (
            ("IN_CALL", None),
            ("FAILED", "container_exited"),
        )
        assert deploying["status"] == queued["status"] == "JOINING_CALL"
        assert done["status"] == "DONE"
        statuses = [slot["status"] for slot in stage.slots()]
        assert statuses.count("error") == statuses.count("releasing") == 0
        (kept,) = stage.rows("SELECT bot_id FROM idempotency_keys WHERE key = 'again'")
        assert kept["bot_id"] == 1
        assert_invariants(old_url)
