"""Statements of the hot path use their indexes and read few rows in an installation of any size.

Statements are planned generically, as in production, and possibly when the tables were small.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pytest

from botpool.domain.bots import AdmissionRequest
from botpool.domain.ids import AssignmentId, BotId, ContainerId, PoolName, SlotId
from botpool.domain.states import BotStatus
from botpool.store import assignments, bots, history, pools, queue, slots, standbys, token_buckets
from botpool.store.migrator import migrate
from botpool.store.query import Statement
from botpool.store.sessions import SessionTimeouts
from botpool.store.statements import sent_text
from tests.store.query_plans import execute_planned, explain, plan, rows_read, scanned_tables
from tests.support.postgres import TestPostgres
from tests.support.replicas import MEET, TEAMS, bot_request

SLOTS = 20_000
QUEUED = 20_000
BATCH = 32
"""Items of one batched statement."""

BUSY = SLOTS // 4
"""An eighth of them is busy, half of them releasing, and the rest deploying."""


def filling(*, slots: int, queued: int) -> str:
    """Return SQL that fills an installation of that size."""
    busy = slots // 4
    deploying, in_call = busy // 2, busy // 8
    return f"""
    INSERT INTO backends (name) VALUES ('process');
    INSERT INTO pools (pool_name, backend, image, max_size, heartbeats) VALUES
        ('google-meet', 'process', 'demo', {slots}, 'required'),
        ('teams', 'process', 'demo', 0, 'required');
    INSERT INTO bots (
        id, pool_name, status, meeting_url, bot_display_name, bot_data, priority, queue_timeout_ms,
        correlation_id, created_at, queued_at, attempts, assignment_id)
    SELECT
        n, CASE WHEN n <= {busy} THEN 'google-meet' ELSE 'teams' END,
        CASE WHEN n <= {in_call} THEN 'IN_CALL' WHEN n <= {busy} THEN 'DEPLOYING' ELSE 'QUEUED' END,
        'u', 'n', '{{}}', 100, 1000, 'c', now(), now(), 1, CASE WHEN n <= {busy} THEN n END
    FROM generate_series(1, {busy + queued}) AS n;
    INSERT INTO assignments (
        id, bot_id, slot_id, slot_name, pool_name, attempt, warm, container_id, assigned_at)
    SELECT n, n, n, 's' || n, 'google-meet', 1, true, 'c' || n, now()
    FROM generate_series(1, {busy}) AS n;
    INSERT INTO bot_pool_queue (bot_id, pool_name, queued_at, timeout_at)
    SELECT id, pool_name, now(), now() + interval '1 hour' FROM bots WHERE status = 'QUEUED';
    INSERT INTO bot_pool_slots (
        id, pool_name, number, slot_name, backend, image, container_id, status, phase,
        assigned_bot_id, assignment_id, last_used_at, next_step_at)
    SELECT
        n, 'google-meet', n, 'pool-google-meet-' || n, 'process', 'demo', 'c' || n,
        CASE WHEN n <= {in_call} THEN 'busy' WHEN n <= {deploying} THEN 'deploying'
             WHEN n <= {busy} THEN 'releasing' ELSE 'idle' END,
        CASE WHEN n > {in_call} AND n <= {deploying} THEN 'starting' END,
        CASE WHEN n <= {busy} THEN n END, CASE WHEN n <= {busy} THEN n END, now(),
        CASE WHEN n <= {deploying} THEN now() WHEN n <= {busy} THEN now() + interval '1 hour' END
    FROM generate_series(1, {slots}) AS n;
    INSERT INTO history (kind, bot_id, slot_id, reason)
    SELECT 'bot.status', n % {busy} + 1, n % {busy} + 1, 'test'
    FROM generate_series(1, {busy * 10}) AS n;
    SELECT setval('bots_id_seq', {busy + queued}), setval('assignments_id_seq', {busy}),
        setval('bot_pool_slots_id_seq', {slots + BATCH});
    """


ZOOM = PoolName("zoom")
MATCHABLE = f"""
    INSERT INTO pools (pool_name, backend, image, max_size, heartbeats)
    VALUES ('{ZOOM}', 'process', 'demo', {3 * BATCH}, 'required');
    INSERT INTO bot_pool_slots (pool_name, number, slot_name, backend, image, id)
    SELECT '{ZOOM}', n, 'pool-{ZOOM}-' || n, 'process', 'demo', {SLOTS} + n
    FROM generate_series(1, {BATCH}) AS n;
    INSERT INTO bots (
        pool_name, status, meeting_url, bot_display_name, bot_data, priority, queue_timeout_ms,
        correlation_id, created_at, queued_at)
    SELECT '{ZOOM}', 'QUEUED', 'u', 'n', '{{}}', 100, 1000, 'c', now(), now()
    FROM generate_series(1, 2 * {BATCH});
    INSERT INTO bot_pool_queue (bot_id, pool_name, queued_at, timeout_at)
    SELECT id, pool_name, now(), now() + interval '1 hour' FROM bots WHERE pool_name = '{ZOOM}';
    UPDATE bot_pool_queue SET timeout_at = now() - interval '1 minute'
    WHERE bot_id BETWEEN {BUSY + 1} AND {BUSY + BATCH};
"""
"""A pool with slots for its whole queue, and expired queue rows of another pool."""

LARGE = filling(slots=SLOTS, queued=QUEUED) + MATCHABLE
SMALL = filling(slots=512, queued=256)
NIGHT = """
    UPDATE bots SET status = 'CANCELLED', ended_at = now();
    DELETE FROM bot_pool_queue; DELETE FROM bot_pool_slots WHERE status <> 'idle';
"""
EMPTY = """
    DELETE FROM history; DELETE FROM bot_pool_slots; DELETE FROM bot_pool_queue;
    DELETE FROM assignments; DELETE FROM bots; DELETE FROM pools; DELETE FROM backends;
"""


@pytest.fixture(scope="module")
def connection(postgres: TestPostgres) -> Iterator[psycopg.Connection]:
    """A session of the product on a large installation."""
    url = postgres.create_database()
    migrate(url)
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        with connection.transaction():
            connection.execute(LARGE)
        connection.execute("VACUUM ANALYZE")
        prepare = SessionTimeouts.of(30.0).statement()
        connection.execute(sent_text(prepare.name), prepare.parameters)
        yield connection
    postgres.drop_database(url)


def ids(first: int, count: int = BATCH) -> list[int]:
    return list(range(first, first + count))


def each(value: Any) -> list[Any]:
    return [value] * BATCH


def new_bots(pool_name: Any) -> queue.NewBots:
    return queue.new_bots([AdmissionRequest(bot=bot_request(pool_name), key=None)] * BATCH)


FREED = {
    "pool_name": MEET,
    "match_follows": False,
    "slot_ids": ids(BUSY - BATCH + 1),
    "assignment_ids": ids(BUSY - BATCH + 1),
    "versions": each(1),
    "statuses": each("idle"),
    "error_messages": each(None),
    "containers_gone": each(False),
    "reasons": each("test"),
    "abandoned": each(False),
}
ENDED = {
    "assignment_ids": ids(BUSY // 2 - BATCH + 1),
    "versions": each(None),
    "statuses": each("CANCELLED"),
    "failure_codes": each(None),
    "failure_reasons": each(None),
    "end_reasons": each(None),
    "slot_errors": each(None),
    "reasons": each("test"),
    "hold_leases": each(False),
    "silent_since": each(None),
}
ASSIGNMENT = AssignmentId(BUSY // 2)
ONE = {"assignment_id": ASSIGNMENT, "version": 1}
RUNNING = {
    "max_duration_s": 60,
    "image_fresh_s": 60,
    "by_agent": True,
    "healed": False,
    "reason": "test",
}
UNDEPLOYED = {
    "bot_ids": ids(BUSY - BATCH + 1),
    "assignment_ids": ids(BUSY - BATCH + 1),
    "reasons": each("test"),
}
NEW_BOT_IDS = str(set(ids(BUSY + QUEUED - BATCH + 1)))
LOOKED_UP = {
    "statuses": [*BotStatus],
    "pool_name": None,
    "tenant_id": None,
    "search": None,
    "before": 2**62,
    "limit": 50,
}
LEASED = {"owner": "test", "lease_s": 20, "limit": BATCH, "backends": ["process"]}
LAST: Any = ids(BUSY - BATCH + 1)


def call(statement: Statement[Any]) -> tuple[str, Mapping[str, Any]]:
    return statement.name, statement.parameters


LAST_ID = 2**63 - 1


def list_slots(*, after_pool: str, after_number: int) -> Statement[Any]:
    return slots.list_slots.statement(
        pool_name=None, status=None, after_pool=after_pool, after_number=after_number, limit=BATCH
    )


def list_queue(*, after_pool: str, after_priority: int, after_arrival: int) -> Statement[Any]:
    return queue.list_queue.statement(
        pool_name=None,
        tenant_id=None,
        after_pool=after_pool,
        after_priority=after_priority,
        after_arrival=after_arrival,
        limit=BATCH,
    )


HOT: list[tuple[str, Mapping[str, Any], int]] = [
    (
        *call(queue.admit_to_idle_slots.statement(idempotency_days=7, **new_bots(MEET))),
        10 * BATCH,
    ),
    ("end_bots", ENDED, 10 * BATCH),
    ("free_slots", FREED, 10 * BATCH),
    (*call(assignments.record_heartbeats.statement(assignment_ids=LAST, bot_ids=LAST)), 10 * BATCH),
    (
        *call(
            standbys.accept_assignments.statement(
                assignment_ids=LAST,
                run_ids=LAST,
                container_ids=[ContainerId(f"c{each}") for each in LAST],
                boot_ids=["boot"] * BATCH,
                max_duration_s=60,
            )
        ),
        10 * BATCH,
    ),
    (
        *call(
            assignments.record_heartbeat_reports.statement(
                assignment_ids=LAST,
                bot_ids=LAST,
                progress=["{}"] * BATCH,
                last_media_at=[None] * BATCH,
            )
        ),
        10 * BATCH,
    ),
    ("lease_slots", LEASED, 10 * BATCH),
    # All due steps belong to another backend.
    ("lease_slots", LEASED | {"backends": ["elsewhere"]}, 10),
    # That pool has no queue and no surplus slots, so that nothing is counted.
    (*call(pools.shrink_pool.statement(pool_name=MEET)), 10),
    (*call(queue.match_queue.statement(pool_name=MEET)), 10),
    (*call(queue.match_shared_queue.statement(pool_name=MEET)), 10),
    (*call(pools.grow_pool.statement(pool_name=MEET)), 10),
    # The nested loop may read every row once per item.
    (*call(queue.match_queue.statement(pool_name=ZOOM)), 2 * BATCH * BATCH),
    (*call(pools.grow_pool.statement(pool_name=ZOOM)), 10 * BATCH),
    (*call(queue.expire_queue.statement(limit=100)), 10 * BATCH),
    ("list_bots_in", LOOKED_UP | {"container_id": f"c{BUSY // 2}", "slot_name": None}, 30),
    ("list_bots_in", LOOKED_UP | {"container_id": None, "slot_name": "pool-google-meet-7"}, 30),
    (*call(slots.find_slots_of_container.statement(container_id=ContainerId("c1"))), 10),
    ("mark_running", ONE | RUNNING, 30),
    ("record_start", ONE | {"slot_id": BUSY // 2, "deployment_id": "d", "timeout_s": 60}, 30),
    (
        *call(
            bots.report_status.statement(
                assignment_id=AssignmentId(BUSY // 8),
                status=BotStatus.LEAVING,
                sources=[BotStatus.IN_CALL],
            )
        ),
        30,
    ),
    (*call(assignments.get_agent_assignment.statement(assignment_id=ASSIGNMENT)), 30),
    (*call(bots.get_bot.statement(bot_id=BotId(BUSY // 2))), 30),
    ("find_slot_of_bot", {"bot_id": BUSY // 2}, 30),
    (
        *call(
            queue.enqueue_bots.statement(
                idempotency_days=7, max_length=1_000, match_follows=True, **new_bots(ZOOM)
            )
        ),
        10 * BATCH,
    ),
    # The queue is counted up to its maximum length.
    (
        *call(
            queue.enqueue_bots.statement(
                idempotency_days=7, max_length=1_000, match_follows=True, **new_bots(TEAMS)
            )
        ),
        1_000 + BATCH,
    ),
    (
        *call(
            token_buckets.take_tokens.statement(
                bucket="limits.posts_per_minute key:1", wanted=100, burst=1_000, per_minute=600
            )
        ),
        2,
    ),
    (
        *call(
            history.record_agent_events.statement(
                assignment_id=ASSIGNMENT,
                kinds=["joined"],
                data=["{}"],
                max_events=10,
                max_bytes=1_000,
                per_minute=60,
                burst=100,
            )
        ),
        30,
    ),
    (*call(queue.find_queue_work.statement()), 100),
    ("requeue_bots", UNDEPLOYED | {"max_attempts": 3, "max_infrastructure_retries": 5}, 20 * BATCH),
    ("fail_bots_without_attempts", UNDEPLOYED, 20 * BATCH),
    (*call(pools.measure_occupancy.statement(pool_name=TEAMS)), 2 * BUSY),
    ("prune_history", {"limit": BATCH, "days": 0}, 10 * BATCH),
    # No bot is old enough; binary search finds the first one.
    ("prune_bots", {"limit": BATCH, "days": 1}, 10),
    (
        *call(
            history.list_slot_history.statement(
                slot_id=SlotId(BUSY // 2),
                before=LAST_ID,
                last_assignment=AssignmentId(LAST_ID),
                limit=BATCH,
                max_bytes=1_000_000,
            )
        ),
        10 * BATCH,
    ),
    (
        *call(
            history.list_bot_history.statement(
                bot_id=BotId(BUSY // 2), after=0, limit=BATCH, max_bytes=1_000_000
            )
        ),
        BATCH,
    ),
    (
        *call(
            history.list_newest_bot_history.statement(
                bot_id=BotId(BUSY // 2), before=LAST_ID, limit=BATCH, max_bytes=1_000_000
            )
        ),
        BATCH,
    ),
    (*call(history.list_bot_transitions.statement(bot_id=BotId(BUSY // 2))), BATCH),
    (*call(list_slots(after_pool="", after_number=0)), 5 * BATCH),
    (*call(list_slots(after_pool=MEET, after_number=SLOTS - BATCH)), 5 * BATCH),
    (*call(slots.get_slots.statement(slot_ids=[SlotId(7)])), 10),
    # The second page counts the bots before it, which gives its positions.
    (*call(list_queue(after_pool="", after_priority=0, after_arrival=0)), 5 * BATCH),
    (*call(list_queue(after_pool=TEAMS, after_priority=100, after_arrival=BUSY + 500)), 700),
    (
        *call(
            assignments.list_slot_assignments.statement(
                slot_id=SlotId(BUSY // 2), before=AssignmentId(LAST_ID), limit=BATCH
            )
        ),
        2 * BATCH,
    ),
]
"""Statements of the hot path, their parameters, and how many rows they may read."""


@pytest.mark.parametrize(
    ("name", "parameters", "rows"), HOT, ids=lambda value: value if isinstance(value, str) else ""
)
def test_hot_statement_uses_its_indexes(
    connection: psycopg.Connection, name: str, parameters: Mapping[str, Any], rows: int
) -> None:
    plan = explain(connection, name, parameters)
    assert not scanned_tables(plan)
    assert rows_read(plan) <= rows


@pytest.mark.parametrize(
    ("size", "server"),
    [
        ("new", "postgres"),
        ("small", "postgres"),
        ("at night", "postgres"),
        ("at night", "debian_postgres"),
    ],
)
def test_plans_of_small_tables_suit_large_tables(
    request: pytest.FixtureRequest, size: str, server: str
) -> None:
    postgres: TestPostgres = request.getfixturevalue(server)
    url = postgres.create_database()
    migrate(url)
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        # Vacuum and analyse would invalidate the plans.
        tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        for (table,) in connection.execute(tables).fetchall():
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
        if size != "new":
            connection.execute(SMALL)
            connection.execute(NIGHT if size == "at night" else "")
            connection.execute("VACUUM ANALYZE")
        prepare = SessionTimeouts.of(30.0).statement()
        connection.execute(sent_text(prepare.name), prepare.parameters)
        # A position is counted up to a thousand.
        hot = [*HOT, (*call(queue.settle_new_bots.statement()), 1_000 + 10 * BATCH)]
        for name, parameters in {name: parameters for name, parameters, _ in hot}.items():
            plan(connection, name, parameters)
        connection.execute(EMPTY)
        connection.execute(LARGE)
        read = {}
        for name, parameters, rows in hot:
            connection.execute("BEGIN")
            connection.execute("SELECT set_config('botpool.new_bot_ids', %s, true)", [NEW_BOT_IDS])
            executed = execute_planned(connection, name, parameters)
            connection.execute("ROLLBACK")
            if rows_read(executed) > rows:
                read[name] = rows_read(executed)
    postgres.drop_database(url)
    assert not read, "statements that read too many rows"


def test_strays_are_found_with_one_scan_of_the_slots(connection: psycopg.Connection) -> None:
    found = [f"stray-{n}" for n in range(100)]
    parameters = {"backend": "process", "container_ids": found, "names": found, "age_s": 600}
    plan = explain(connection, "record_strays", parameters)
    assert rows_read(plan) <= 2 * SLOTS


def test_queue_position_is_counted_up_to_a_thousand(connection: psycopg.Connection) -> None:
    """One count serves all bots of a batch."""
    connection.execute("BEGIN")
    connection.execute(f"SELECT set_config('botpool.new_bot_ids', '{{{BUSY + QUEUED}}}', true)")
    plan = explain(connection, *call(queue.settle_new_bots.statement()), in_transaction=True)
    connection.execute("ROLLBACK")
    assert rows_read(plan) <= 1_100
