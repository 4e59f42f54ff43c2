"""Errors of the database: each gets its own meaning, and none is an internal error."""

import secrets

import psycopg
import pytest

from botpool.domain.errors import DatabaseProblem, DatabaseUnavailable
from botpool.store.database import Database
from botpool.store.query import Statement
from tests.support.postgres import TestPostgres
from tests.support.replaced_statements import replaced_statements

RAISED = {
    "25006": DatabaseProblem.READ_ONLY,
    "25P03": DatabaseProblem.STATEMENT_TIMEOUT,
    "40001": DatabaseProblem.CONFLICT,
    "40P01": DatabaseProblem.CONFLICT,
    "42501": DatabaseProblem.NOT_PERMITTED,
    "53100": DatabaseProblem.DISK_FULL,
    "53200": DatabaseProblem.OUT_OF_RESOURCES,
    "53300": DatabaseProblem.TOO_MANY_CONNECTIONS,
    "55P03": DatabaseProblem.LOCK_TIMEOUT,
    "57014": DatabaseProblem.STATEMENT_TIMEOUT,
    "57P01": DatabaseProblem.SHUTTING_DOWN,
    "58030": DatabaseProblem.SYSTEM_ERROR,
    "XX001": DatabaseProblem.SYSTEM_ERROR,
}


@pytest.mark.parametrize(("state", "problem"), RAISED.items())
async def test_error_of_the_server_has_its_own_meaning(
    database_url: str, state: str, problem: DatabaseProblem
) -> None:
    database = Database(database_url, max_connections=2)
    await database.open()
    statement = f"DO $$ BEGIN RAISE EXCEPTION 'the reason' USING ERRCODE = '{state}'; END $$"
    with replaced_statements(fail=statement), pytest.raises(DatabaseUnavailable) as raised:
        await database.query(Statement("fail", {}, list))
    await database.close()
    assert raised.value.problem is problem
    assert str(raised.value).endswith(": the reason")
    assert raised.value.retry_after_s > 0


async def test_mistake_in_a_statement_is_no_failure_of_the_database(database_url: str) -> None:
    database = Database(database_url, max_connections=2)
    await database.open()
    with (
        replaced_statements(fail="SELECT no_such_column"),
        pytest.raises(psycopg.errors.UndefinedColumn),
    ):
        await database.query(Statement("fail", {}, list))
    await database.close()


async def test_refused_connection_is_named_when_the_pool_has_none(
    postgres: TestPostgres, database_url: str
) -> None:
    role = f"limited_{secrets.token_hex(4)}"
    with psycopg.connect(database_url, autocommit=True) as server:
        server.execute(f"CREATE ROLE {role} LOGIN")
        url = database_url.replace("postgresql://botpool@", f"postgresql://{role}@")
        database = Database(url, max_connections=2, statement_timeout_s=1.0)
        await database.open()
        server.execute(f"ALTER ROLE {role} CONNECTION LIMIT 0")
        server.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE usename = %s",
            [role],
        )
        with replaced_statements(ok="SELECT 1"):
            problems = [await _problem(database) for _ in range(3)]
        await database.close()
        server.execute(f"DROP ROLE {role}")
    assert problems[-1] is DatabaseProblem.TOO_MANY_CONNECTIONS


async def _problem(database: Database) -> DatabaseProblem:
    with pytest.raises(DatabaseUnavailable) as raised:
        await database.query(Statement("ok", {}, list))
    return raised.value.problem
