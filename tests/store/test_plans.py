"""The statements of the hot path use their indexes and touch few rows, however much there is.

As the product runs them: planned once, without knowing what they will be asked for, nor how much
there will be by then.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import psycopg
import pytest

from botpool.domain.ids import AssignmentId, BotId, PoolName, SlotId
from botpool.domain.records import AdmissionRequest
from botpool.domain.states import BotStatus
from botpool.store import assignments, bots, heartbeats, history, pools, queue
from botpool.store.migrations import migrate
from botpool.store.statement import Statement
from botpool.store.statements import sent_text
from tests.store.explained import executed_as_planned, explained, plan, read_whole, rows_read
from tests.support.postgres import TestPostgres
from tests.support.replicas import MEET, TEAMS, wish

SLOTS = 20_000
QUEUED = 20_000
TOGETHER = 32
"""How many items a statement carries here."""

BUSY = SLOTS // 4
"""An eighth of them busy, half of them releasing, and the others deploying."""


def filling(*, slots: int, queued: int) -> str:
    """An installation of that size."""
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
    INSERT INTO assignments (id, bot_id, slot_id, slot_name, pool_name, attempt, warm, assigned_at)
    SELECT n, n, n, 's' || n, 'google-meet', 1, true, now() FROM generate_series(1, {busy}) AS n;
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
        setval('bot_pool_slots_id_seq', {slots + TOGETHER});
    """


ZOOM = PoolName("zoom")
AT_ONCE = f"""
    INSERT INTO pools (pool_name, backend, image, max_size, heartbeats)
    VALUES ('{ZOOM}', 'process', 'demo', {3 * TOGETHER}, 'required');
    INSERT INTO bot_pool_slots (pool_name, number, slot_name, backend, image, id)
    SELECT '{ZOOM}', n, 'pool-{ZOOM}-' || n, 'process', 'demo', {SLOTS} + n
    FROM generate_series(1, {TOGETHER}) AS n;
    INSERT INTO bots (
        pool_name, status, meeting_url, bot_display_name, bot_data, priority, queue_timeout_ms,
        correlation_id, created_at, queued_at)
    SELECT '{ZOOM}', 'QUEUED', 'u', 'n', '{{}}', 100, 1000, 'c', now(), now()
    FROM generate_series(1, 2 * {TOGETHER});
    INSERT INTO bot_pool_queue (bot_id, pool_name, queued_at, timeout_at)
    SELECT id, pool_name, now(), now() + interval '1 hour' FROM bots WHERE pool_name = '{ZOOM}';
    UPDATE bot_pool_queue SET timeout_at = now() - interval '1 minute'
    WHERE bot_id BETWEEN {BUSY + 1} AND {BUSY + TOGETHER};
"""
"""A pool that could serve all who wait there, and some in another whose time there is over."""

LARGE = filling(slots=SLOTS, queued=QUEUED) + AT_ONCE
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
    """A large installation, seen as by a session of the product."""
    url = postgres.create_database()
    migrate(url)
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        with connection.transaction():
            connection.execute(LARGE)
        connection.execute("VACUUM ANALYZE")
        connection.execute(sent_text("prepare_session"))
        yield connection
    postgres.drop_database(url)


def ids(first: int, count: int = TOGETHER) -> list[int]:
    return list(range(first, first + count))


def each(value: Any) -> list[Any]:
    return [value] * TOGETHER


def requests(pool_name: Any) -> list[AdmissionRequest]:
    return [AdmissionRequest(bot=wish(pool_name), key=None)] * TOGETHER


FREED = {
    "pool_name": MEET,
    "match_follows": False,
    "slot_ids": ids(BUSY - TOGETHER + 1),
    "assignment_ids": ids(BUSY - TOGETHER + 1),
    "versions": each(1),
    "statuses": each("idle"),
    "error_messages": each(None),
    "containers_gone": each(False),
    "reasons": each("test"),
}
ENDED = {
    "assignment_ids": ids(BUSY // 2 - TOGETHER + 1),
    "versions": each(None),
    "statuses": each("CANCELLED"),
    "failure_codes": each(None),
    "failure_reasons": each(None),
    "reasons": each("test"),
    "hold_leases": each(False),
    "silent_since": each(None),
}
ASSIGNMENT = AssignmentId(BUSY // 2)
ONE = {"assignment_id": ASSIGNMENT, "version": 1}
RUNNING = {"max_duration_s": 60, "image_fresh_s": 60, "by_agent": True, "reason": "test"}
UNDEPLOYED = {
    "bot_ids": ids(BUSY - TOGETHER + 1),
    "assignment_ids": ids(BUSY - TOGETHER + 1),
    "reasons": each("test"),
}
NEWCOMERS = str(set(ids(BUSY + QUEUED - TOGETHER + 1)))
LEASED = {"owner": "test", "lease_s": 20, "limit": TOGETHER, "backends": ["process"]}
LAST: Any = ids(BUSY - TOGETHER + 1)


def call(statement: Statement[Any]) -> tuple[str, Mapping[str, Any]]:
    return statement.name, statement.parameters


HOT: list[tuple[str, Mapping[str, Any], int]] = [
    (*call(queue.admit_to_idle_slots(requests(MEET), idempotency_days=7)), 10 * TOGETHER),
    ("end_bots", ENDED, 10 * TOGETHER),
    ("free_slots", FREED, 10 * TOGETHER),
    (*call(heartbeats.record_heartbeats(assignment_ids=LAST, bot_ids=LAST)), 10 * TOGETHER),
    ("lease_slots", LEASED, 10 * TOGETHER),
    # Everything that is due waits for the replicas of another backend.
    ("lease_slots", LEASED | {"backends": ["elsewhere"]}, 10),
    # Nobody waits in that pool, and nothing of it has to go: looked at, not counted.
    (*call(pools.shrink_pool(MEET)), 10),
    (*call(queue.match_queue(MEET)), 10),
    (*call(pools.grow_pool(MEET)), 10),
    # Their rows may be looked through once for each of them.
    (*call(queue.match_queue(ZOOM)), 2 * TOGETHER * TOGETHER),
    (*call(pools.grow_pool(ZOOM)), 10 * TOGETHER),
    (*call(queue.expire_queue(limit=100)), 10 * TOGETHER),
    ("mark_running", ONE | RUNNING, 30),
    ("record_start", ONE | {"slot_id": BUSY // 2, "deployment_id": "d", "timeout_s": 60}, 30),
    (
        *call(
            bots.report_status(
                assignment_id=AssignmentId(BUSY // 8),
                status=BotStatus.LEAVING,
                sources=[BotStatus.IN_CALL],
            )
        ),
        30,
    ),
    (*call(assignments.get_agent_assignment(ASSIGNMENT)), 30),
    (*call(bots.get_bot(BotId(BUSY // 2))), 30),
    ("find_slot_of_bot", {"bot_id": BUSY // 2}, 30),
    (
        *call(queue.enqueue_bots(requests(TEAMS), idempotency_days=7, match_follows=True)),
        10 * TOGETHER,
    ),
    (*call(history.record_agent_events(ASSIGNMENT, kinds=["joined"], data=["{}"])), 30),
    (*call(queue.find_queue_work()), 100),
    ("requeue_bots", UNDEPLOYED | {"max_attempts": 3}, 20 * TOGETHER),
    ("fail_bots_without_attempts", UNDEPLOYED, 20 * TOGETHER),
    (*call(pools.measure_occupancy(TEAMS)), 2 * BUSY),
    ("prune_history", {"limit": TOGETHER, "days": 0}, 10 * TOGETHER),
    # All are young: the first that is not too old is found by halving.
    ("prune_bots", {"limit": TOGETHER, "days": 1}, 10),
    (*call(history.list_slot_history(SlotId(BUSY // 2), limit=TOGETHER)), 10 * TOGETHER),
]
"""Statements of the hot path, what they are asked for, and how many rows they may read."""


@pytest.mark.parametrize(
    ("name", "parameters", "rows"), HOT, ids=lambda value: value if isinstance(value, str) else ""
)
def test_a_hot_statement_uses_its_indexes(
    connection: psycopg.Connection, name: str, parameters: Mapping[str, Any], rows: int
) -> None:
    plan = explained(connection, name, parameters)
    assert not read_whole(plan)
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
def test_plans_made_while_there_was_little_are_good_when_there_is_much(
    request: pytest.FixtureRequest, size: str, server: str
) -> None:
    postgres: TestPostgres = request.getfixturevalue(server)
    url = postgres.create_database()
    migrate(url)
    with psycopg.connect(url, autocommit=True, cursor_factory=psycopg.ClientCursor) as connection:
        # What is vacuumed or analysed is planned anew, some time later: here, never.
        tables = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        for (table,) in connection.execute(tables).fetchall():
            connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
        if size != "new":
            connection.execute(SMALL)
            connection.execute(NIGHT if size == "at night" else "")
            connection.execute("VACUUM ANALYZE")
        connection.execute(sent_text("prepare_session"))
        # Positions are counted up to a thousand.
        hot = [*HOT, (*call(queue.settle_new_bots()), 1_000 + 10 * TOGETHER)]
        for name, parameters in {name: parameters for name, parameters, _ in hot}.items():
            plan(connection, name, parameters)
        connection.execute(EMPTY)
        connection.execute(LARGE)
        read = {}
        for name, parameters, rows in hot:
            connection.execute("BEGIN")
            connection.execute("SELECT set_config('botpool.new_bot_ids', %s, true)", [NEWCOMERS])
            executed = executed_as_planned(connection, name, parameters)
            connection.execute("ROLLBACK")
            if rows_read(executed) > rows:
                read[name] = rows_read(executed)
    postgres.drop_database(url)
    assert not read, "more rows than they may"


def test_strays_are_told_from_slots_by_reading_those_once(connection: psycopg.Connection) -> None:
    found = [f"stray-{n}" for n in range(100)]
    parameters = {"backend": "process", "container_ids": found, "names": found, "age_s": 600}
    plan = explained(connection, "record_strays", parameters)
    assert rows_read(plan) <= 2 * SLOTS


def test_a_newcomer_behind_many_is_not_counted_in(connection: psycopg.Connection) -> None:
    """Positions are counted up to a thousand, once for all who come together."""
    connection.execute("BEGIN")
    connection.execute(f"SELECT set_config('botpool.new_bot_ids', '{{{BUSY + QUEUED}}}', true)")
    plan = explained(connection, *call(queue.settle_new_bots()), in_transaction=True)
    connection.execute("ROLLBACK")
    assert rows_read(plan) <= 1_100
