"""A restored, promoted or copied database begins a new epoch, whose ids skip ahead."""

import secrets

import psycopg

from botpool.store.database import Database
from botpool.store.database_epochs import DatabaseEpoch, get_database_epoch
from botpool.store.migrator import migrate
from tests.support.postgres import TestPostgres


async def test_first_connection_begins_the_first_epoch(database_url: str) -> None:
    epoch = await connect(database_url)
    assert (epoch.number, epoch.reason, epoch.evidence) == (1, "the database is new", None)
    assert next_id(database_url, "bots") == 1


async def test_epoch_continues_while_the_database_is_the_same(database_url: str) -> None:
    first = await connect(database_url)
    assert (await connect(database_url)).began_at == first.began_at


async def test_copy_of_the_database_gets_other_ids(
    database_url: str, postgres: TestPostgres
) -> None:
    await connect(database_url)
    copy = postgres.create_database(database_url)
    try:
        epoch = await connect(copy)
        assert (epoch.number, epoch.reason) == (
            2,
            "the database is a copy or was created again",
        )
        assert next_id(copy, "assignments") > next_id(database_url, "assignments") + 10**9
        assert next_id(copy, "bots") > next_id(database_url, "bots") + 10**6
    finally:
        postgres.drop_database(copy)


async def test_loaded_rows_begin_an_epoch(database_url: str) -> None:
    """`pg_restore --data-only` into the same tables changes nothing but the rows' transactions."""
    await connect(database_url)
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE dump AS SELECT * FROM database_epochs")
        connection.execute("DELETE FROM database_epochs")
        connection.execute("INSERT INTO database_epochs SELECT * FROM dump")
    assert (await connect(database_url)).reason == "the rows were loaded from a dump"


async def test_ids_follow_the_clock_after_a_restore_without_evidence(database_url: str) -> None:
    """A restored snapshot of the disk shows no evidence, and its sequences are those of then."""
    await connect(database_url)
    lost = next_id(database_url, "assignments")
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("SELECT setval('assignments_id_seq', 1)")
    assert (await connect(database_url)).number == 1
    assert next_id(database_url, "assignments") > lost


async def test_unknown_assignment_of_a_container_begins_an_epoch(database_url: str) -> None:
    await connect(database_url)
    lost = next_id(database_url, "assignments")
    for _ in range(2):  # the second container of the lost time is no new evidence
        with psycopg.connect(database_url, autocommit=True) as connection:
            connection.execute("SELECT botpool_follow_epoch(%s)", [lost])
    epoch = await connect(database_url)
    reason = "a container has an assignment that the database has lost"
    assert (epoch.number, epoch.reason) == (2, reason)
    assert epoch.first_assignment_id > lost + 10**9


async def connect(url: str) -> DatabaseEpoch:
    """Open a pool of connections, as a replica does, and read the newest epoch."""
    database = Database(url)
    await database.open()
    try:
        epoch = await get_database_epoch(database)
    finally:
        await database.close()
    assert epoch is not None
    return epoch


def next_id(url: str, table: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(f"SELECT nextval('{table}_id_seq')").fetchone()
    assert row is not None
    return int(row[0])


async def test_dump_loaded_into_another_database_begins_an_epoch(
    database_url: str, postgres: TestPostgres
) -> None:
    await connect(database_url)
    lost = next_id(database_url, "bots")
    restored = postgres.create_database()
    try:
        postgres.copy_by_dump(database_url, restored)
        epoch = await connect(restored)
        assert (epoch.number, epoch.evidence) == (2, None)
        assert next_id(restored, "bots") > lost + 10**6
    finally:
        postgres.drop_database(restored)


async def test_role_without_superuser_rights_reads_all_evidence(
    postgres: TestPostgres,
) -> None:
    """As with a managed PostgreSQL: the role owns its database and nothing else."""
    owner = f"owner_{secrets.token_hex(4)}"
    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {owner} LOGIN")
        connection.execute(f"CREATE DATABASE {owner} OWNER {owner}")
    url = postgres.url(owner).replace("botpool@", f"{owner}@")
    try:
        migrate(url)
        assert (await connect(url)).number == 1
        with psycopg.connect(url) as connection:
            row = connection.execute(
                "SELECT num_nulls(system_identifier, timeline, database_oid) FROM database_epochs"
            ).fetchone()
        assert row == (0,), "a fact could not be read"
    finally:
        postgres.drop_database(url)
        with psycopg.connect(postgres.url(), autocommit=True) as connection:
            connection.execute(f"DROP ROLE {owner}")
