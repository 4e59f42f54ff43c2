"""The schema enforces transitions, constraints and versions; every SQL file follows the rules."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import psycopg
import pytest

from botpool.domain.states import (
    BOT_TRANSITIONS,
    FINAL,
    SLOT_TRANSITIONS,
    WITH_BOT,
    BotStatus,
    EndReason,
    FailureCode,
    SlotPhase,
    SlotStatus,
    Standby,
)
from botpool.store import statements

LEADS_AS_STANDBY = (
    "run_id = 1, standby = 'starting', phase = 'starting', start_allowed_at = now(), "
    "leads_image = 'demo', image_host = 'here'"
)
QUERIES = Path(statements.__file__).parent / "sql" / "queries"
NAMES = sorted(path.stem for path in QUERIES.glob("*.sql"))


@pytest.fixture
def connection(database_url: str):  # type: ignore[no-untyped-def]
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(
            "INSERT INTO pools (pool_name, backend, image, max_size, heartbeats) "
            "VALUES ('google-meet', 'process', 'demo', 5, 'required')"
        )
        yield connection


def allowed(connection: psycopg.Connection, machine: str, old: str, new: str) -> bool:
    row = connection.execute(f"SELECT botpool_{machine}_transition_allowed(%s, %s)", [old, new])
    return bool(row.fetchone()[0])  # type: ignore[index]


def test_database_allows_the_transitions_of_the_domain(connection: psycopg.Connection) -> None:
    for old, new in product(BotStatus, BotStatus):
        assert allowed(connection, "bot", old, new) == (new in BOT_TRANSITIONS[old]), (old, new)
    for slot_old, slot_new in product(SlotStatus, SlotStatus):
        expected = slot_new in SLOT_TRANSITIONS[slot_old]
        assert allowed(connection, "slot", slot_old, slot_new) == expected, (slot_old, slot_new)


def test_no_time_is_infinite_by_default(connection: psycopg.Connection) -> None:
    """PostgreSQL before 17 cannot subtract infinite times."""
    infinite = connection.execute(
        "SELECT table_name, column_name FROM information_schema.columns"
        " WHERE table_schema = 'public' AND column_default LIKE '%infinity%'"
    ).fetchall()
    assert infinite == []


def test_bot_is_valid_as_in_the_domain(connection: psycopg.Connection) -> None:
    ended = datetime(2026, 1, 1, tzinfo=UTC)
    codes = [None, *FailureCode, "else"]
    for end_reason in EndReason:
        assert is_valid(connection, "bot", [BotStatus.DONE, None, ended, 0, end_reason, None])
    times = [None, ended]
    for row in product([*BotStatus, "ELSE"], codes, times, [-1, 0], [None, "else"], times):
        status, code, ended_at, timeout_ms, end_reason, join_at = row
        expected = (
            status != "ELSE"
            and code != "else"
            and (status in FINAL) == (ended_at is not None)
            and (status == BotStatus.FAILED) == (code is not None)
            and timeout_ms >= 0
            and end_reason != "else"
            and (status != BotStatus.SCHEDULED or join_at is not None)
        )
        assert is_valid(connection, "bot", row) == expected, row


def test_slot_is_valid_as_in_the_domain(connection: psycopg.Connection) -> None:
    with_bot = {SlotStatus.DEPLOYING, SlotStatus.BUSY, SlotStatus.RELEASING}
    phases = [None, *SlotPhase, "else"]
    flags = [[None, 1]] * 2 + [[None, "text"]] * 3
    for row in product([*SlotStatus, "else"], phases, *flags, [0, 1]):
        status, phase, bot, assignment, message, leads, image_host, number = row
        expected = (
            status != "else"
            and phase not in ("else", SlotPhase.HANDING_OVER)
            and (status == SlotStatus.DEPLOYING) == (phase is not None)
            and (status in with_bot) == (bot is not None)
            and (bot is None) == (assignment is None)
            and (status != SlotStatus.ERROR or message is not None)
            and (leads is None or (bot is not None and image_host is not None))
            and number >= 1
        )
        assert is_valid(connection, "slot", [*row, None, 1]) == expected, row


def test_standby_is_valid_as_in_the_domain(connection: psycopg.Connection) -> None:
    idle, handing_over = SlotStatus.IDLE, SlotPhase.HANDING_OVER
    allowed = {
        (idle, SlotPhase.CREATING, Standby.STARTING),
        (idle, SlotPhase.WAITING_FOR_IMAGE, Standby.STARTING),
        (idle, SlotPhase.WAITING_FOR_START, Standby.STARTING),
        (idle, SlotPhase.STARTING, Standby.STARTING),
        (idle, SlotPhase.CREATING, Standby.PULLING),
        (idle, SlotPhase.WAITING_FOR_IMAGE, Standby.PULLING),
        (idle, SlotPhase.WAITING_FOR_START, Standby.PULLING),
        (idle, SlotPhase.STARTING, Standby.PULLING),
        (idle, None, Standby.READY),
        (idle, None, Standby.STOPPING),
        (SlotStatus.DEPLOYING, handing_over, Standby.STARTING),
        (SlotStatus.DEPLOYING, handing_over, Standby.READY),
        (SlotStatus.RELEASING, None, Standby.STOPPING),
    }
    for status, phase, standby in product(SlotStatus, [None, *SlotPhase], [*Standby, "else"]):
        bot = 1 if status in WITH_BOT else None
        row = [status, phase, bot, bot, "text", None, None, 1, standby]
        expected = (status, phase, standby) in allowed
        assert is_valid(connection, "slot", [*row, 1]) == expected, row
        assert not is_valid(connection, "slot", [*row, None]), "a standby has a run"


@pytest.mark.parametrize(
    ("change", "rank"),
    [
        ("slot_name = slot_name", 3),
        ("container_id = 'c'", 2),
        ("container_id = 'c', run_id = 1, standby = 'starting', phase = 'creating'", 2),
        ("run_id = 1, standby = 'starting', phase = 'starting', start_allowed_at = now()", 1),
        (f"{LEADS_AS_STANDBY}, container_id = 'c'", 3),
        ("run_id = 1, standby = 'ready', container_id = 'c'", 0),
        ("run_id = 1, standby = 'stopping', container_id = 'c'", None),
        ("run_id = 1, standby = 'ready', cordoned = true", None),
        ("run_id = 1, standby = 'ready', held = true", None),
        ("status = 'error', error_message = 'broken'", None),
    ],
)
def test_claim_rank_of_a_slot(
    connection: psycopg.Connection, change: str, rank: int | None
) -> None:
    connection.execute(
        "INSERT INTO bot_pool_slots (pool_name, number, slot_name, backend, image)"
        " VALUES ('google-meet', 1, 'pool-google-meet-001', 'process', 'demo')"
    )
    found = connection.execute(
        f"UPDATE bot_pool_slots SET {change}, version = version + 1 RETURNING claim_rank"
    ).fetchall()
    assert found == [(rank,)]


def is_valid(connection: psycopg.Connection, kind: str, row: Sequence[object]) -> bool:
    """Evaluate the check function; a CHECK passes unless it is false."""
    shown = ", ".join("%s" for _ in row)
    found = connection.execute(f"SELECT botpool_{kind}_is_valid({shown}) IS NOT FALSE", row)
    return bool(found.fetchone()[0])  # type: ignore[index]


@pytest.mark.parametrize(
    ("table", "change"),
    [
        ("bots", "status = 'ELSE'"),
        ("bots", "failure_code = 'else'"),
        ("bots", "end_reason = 'else'"),
        ("bots", "ended_at = now()"),
        ("bots", "queue_timeout_ms = -1"),
        ("bot_pool_slots", "status = 'busy'"),
        ("bot_pool_slots", "phase = 'starting'"),
        ("bot_pool_slots", "assigned_bot_id = 1"),
        ("bot_pool_slots", "assignment_id = 1"),
        ("bot_pool_slots", "leads_image = 'x', status = 'releasing'"),
        ("bot_pool_slots", "number = 0, slot_name = 'pool-google-meet-0'"),
    ],
)
def test_invalid_row_is_refused(connection: psycopg.Connection, table: str, change: str) -> None:
    insert_bot(connection)
    insert_slot(connection, 1)
    connection.execute("DROP TRIGGER bots_transitions ON bots")
    connection.execute("DROP TRIGGER slots_transitions ON bot_pool_slots")
    raised = "" if table == "bots" else ", version = version + 1"
    with pytest.raises(psycopg.errors.CheckViolation, match="_are_valid"):
        connection.execute(f"UPDATE {table} SET {change}{raised}")


def insert_bot(connection: psycopg.Connection, status: str = "DEPLOYING") -> int:
    row = connection.execute(
        "INSERT INTO bots (pool_name, status, meeting_url, bot_display_name, bot_data, priority, "
        "queue_timeout_ms, correlation_id, created_at, ended_at, failure_code) "
        "VALUES ('google-meet', %s, 'u', 'n', '{}', 100, 0, 'c', now(), "
        "CASE WHEN %s IN ('DONE', 'FAILED', 'CANCELLED') THEN now() END, "
        "CASE WHEN %s = 'FAILED' THEN 'internal' END) RETURNING id",
        [status, status, status],
    ).fetchone()
    assert row is not None
    return int(row[0])


def insert_slot(connection: psycopg.Connection, number: int, bot: int | None = None) -> int:
    row = connection.execute(
        "INSERT INTO bot_pool_slots (pool_name, number, slot_name, backend, image, status, phase, "
        "assigned_bot_id, assignment_id) VALUES ('google-meet', %s, "
        "'pool-google-meet-' || %s, 'process', 'demo', "
        "%s, %s, %s, %s) RETURNING id",
        [number, number, "deploying" if bot else "idle", "creating" if bot else None, bot, bot],
    ).fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.parametrize("final", ["DONE", "FAILED", "CANCELLED"])
def test_final_status_cannot_change(connection: psycopg.Connection, final: str) -> None:
    bot = insert_bot(connection, final)
    with pytest.raises(psycopg.errors.CheckViolation, match="may not go"):
        connection.execute(
            "UPDATE bots SET status = 'IN_CALL', ended_at = NULL, failure_code = NULL "
            "WHERE id = %s",
            [bot],
        )


@pytest.mark.parametrize(
    "name", ["pool-google-meet-12", "pool-google-meet-0020", "pool-zoom-2", "xpool-google-meet-2"]
)
def test_slot_name_follows_from_pool_name_and_number(
    connection: psycopg.Connection, name: str
) -> None:
    """Numbers are unique in a pool, so that names are unique too."""
    insert_slot(connection, 1)
    with pytest.raises(psycopg.errors.CheckViolation, match="may not be named"):
        connection.execute(
            "UPDATE bot_pool_slots SET number = 2, slot_name = %s, version = version + 1", [name]
        )
    connection.execute(
        "UPDATE bot_pool_slots SET number = 2, slot_name = 'pool-google-meet-002', "
        "version = version + 1"
    )
    with pytest.raises(psycopg.errors.UniqueViolation):
        insert_slot(connection, 2)


def test_bot_is_in_at_most_one_slot(connection: psycopg.Connection) -> None:
    bot = insert_bot(connection)
    insert_slot(connection, 1, bot)
    with pytest.raises(psycopg.errors.UniqueViolation):
        insert_slot(connection, 2, bot)


def test_status_decides_whether_slot_has_bot(connection: psycopg.Connection) -> None:
    slot = insert_slot(connection, 1)
    bot = insert_bot(connection)
    with pytest.raises(psycopg.errors.CheckViolation):
        connection.execute(
            "UPDATE bot_pool_slots SET assigned_bot_id = %s, assignment_id = 1, "
            "version = version + 1 WHERE id = %s",
            [bot, slot],
        )


def test_slot_write_without_version_increase_is_refused(connection: psycopg.Connection) -> None:
    slot = insert_slot(connection, 1)
    with pytest.raises(psycopg.errors.CheckViolation, match="without an increase"):
        connection.execute("UPDATE bot_pool_slots SET cordoned = true WHERE id = %s", [slot])


def test_queued_bot_without_queue_row_is_refused_at_commit(connection: psycopg.Connection) -> None:
    bot = insert_bot(connection)
    with pytest.raises(psycopg.errors.CheckViolation, match="queue row"):
        connection.execute("UPDATE bots SET status = 'QUEUED' WHERE id = %s", [bot])


def test_queue_row_without_queued_bot_is_refused_at_commit(
    connection: psycopg.Connection,
) -> None:
    bot = insert_bot(connection)
    with pytest.raises(psycopg.errors.CheckViolation, match="queue row"):
        connection.execute(
            "INSERT INTO bot_pool_queue (bot_id, pool_name, queued_at, timeout_at) "
            "VALUES (%s, 'google-meet', now(), now())",
            [bot],
        )


def test_slot_number_is_unique_in_its_pool(connection: psycopg.Connection) -> None:
    insert_slot(connection, 1)
    with pytest.raises(psycopg.errors.UniqueViolation):
        insert_slot(connection, 1)


def test_container_is_unique_at_its_backend(connection: psycopg.Connection) -> None:
    """Also when a slot takes a container over; the names of a deleted slot can be used again."""
    first, second = insert_slot(connection, 1), insert_slot(connection, 2)
    take = "UPDATE bot_pool_slots SET container_id = %s, version = version + 1 WHERE id = %s"
    connection.execute(take, ["the-container", first])
    with pytest.raises(psycopg.errors.UniqueViolation):
        connection.execute(take, ["the-container", second])
    connection.execute(take, [None, first])
    connection.execute(take, ["the-container", second])
    connection.execute("DELETE FROM bot_pool_slots WHERE id = %s", [first])
    insert_slot(connection, 1)
    known = connection.execute("SELECT number, container_id FROM slot_identities ORDER BY number")
    assert known.fetchall() == [(1, None), (2, "the-container")]


def test_slot_without_identity_row_takes_no_container(connection: psycopg.Connection) -> None:
    """Without the identity row, two slots could have one container."""
    slot = insert_slot(connection, 1)
    connection.execute("DELETE FROM slot_identities")
    with pytest.raises(psycopg.errors.CheckViolation, match="no row in slot_identities"):
        connection.execute(
            "UPDATE bot_pool_slots SET container_id = 'c', version = version + 1 WHERE id = %s",
            [slot],
        )


def test_first_bot_since_finds_first_bot_created_after_time(connection: psycopg.Connection) -> None:
    first_since = "SELECT botpool_first_bot_since('2026-01-01T00:00:00Z'::timestamptz + %s)"

    def found(minutes: int) -> int | None:
        row = connection.execute(first_since, [timedelta(minutes=minutes)]).fetchone()
        assert row is not None
        first: int | None = row[0]
        return first

    assert found(0) is None, "there are no bots"
    arrivals = {30: 1, 31: 1, 90: 2, 91: 5, 7_000: 5, 7_001: 9}
    for bot, minute in arrivals.items():
        connection.execute(
            "UPDATE bots SET id = %s, created_at = '2026-01-01T00:00:00Z'::timestamptz + %s "
            "WHERE id = %s",
            [bot, timedelta(minutes=minute), insert_bot(connection)],
        )
    for minute in range(11):
        since = [bot for bot, arrived in arrivals.items() if arrived >= minute]
        first = found(minute)
        assert first is not None
        assert [bot for bot in arrivals if bot >= first] == since


def test_assigned_bot_is_written_by_three_statements() -> None:
    """`assigned_bot_id` is the single source of truth."""
    writing = re.compile(r"assigned_bot_id\s*=\s*(\w+(?:\.\w+)?)\s*,")
    found = {path.stem: writing.findall(path.read_text()) for path in QUERIES.parent.rglob("*.sql")}
    assert {name: values for name, values in found.items() if values} == {
        "admit_to_idle_slots": ["a.bot_id"],
        "assign_heads": ["pair.bot_id"],
        "free_slots": ["NULL"],
    }
    including = {path.stem for path in QUERIES.iterdir() if "assign_heads" in path.read_text()}
    assert including == {"match_queue", "match_shared_queue"}


@pytest.mark.parametrize("name", NAMES)
def test_sql_file_is_one_documented_statement(name: str) -> None:
    text = statements.statement_text(name)
    assert text.startswith("-- "), "the first line says the purpose"
    body = re.sub(r"--[^\n]*", "", text)
    assert ";" not in body, "one statement a file"
    assert not re.search(r"select\s+\*|\b\w+\.\*", body, re.IGNORECASE) or re.search(
        r"\b(ids|leased|bot)\.\*", body
    ), "explicit columns"


def test_every_write_to_slot_increases_its_version() -> None:
    for name in NAMES:
        for update in re.findall(
            r"UPDATE bot_pool_slots\b.*?(?:RETURNING|WHERE)",
            statements.statement_text(name),
            re.DOTALL,
        ):
            assert re.search(r"version = (s\.)?version \+ 1", update), name


def test_python_contains_no_sql() -> None:
    sources = Path(statements.__file__).parents[1].rglob("*.py")
    hidden = re.compile(r'["\'](SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH|CREATE) ')
    offenders = [path.name for path in sources if hidden.search(path.read_text())]
    assert offenders == []
