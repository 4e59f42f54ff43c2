"""`botpool migrate` on a database that belongs to another system."""

import psycopg
import pytest

from botpool.cli import main
from botpool.store.migrations import known_names
from botpool.store.migrator import migrate
from tests.support.postgres import TestPostgres

Captured = pytest.CaptureFixture[str]


def contents(url: str) -> set[tuple[str, str]]:
    """Return every table, view, sequence, index and function of the database."""
    with psycopg.connect(url) as connection:
        return set(
            connection.execute(
                "SELECT relkind::text, relname FROM pg_class "
                "WHERE relnamespace = 'public'::regnamespace "
                "UNION SELECT 'function', proname FROM pg_proc "
                "WHERE pronamespace = 'public'::regnamespace"
            ).fetchall()
        )


@pytest.mark.parametrize(
    "foreign",
    [
        "CREATE TABLE bots (id serial PRIMARY KEY, name text)",
        "CREATE TABLE bots (id int); CREATE TABLE schema_migrations (name text)",
        "CREATE VIEW history AS SELECT 1",
    ],
)
def test_database_of_another_system_is_refused_and_unchanged(
    postgres: TestPostgres, monkeypatch: pytest.MonkeyPatch, capsys: Captured, foreign: str
) -> None:
    url = postgres.create_database()
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(foreign)
        before = contents(url)
        monkeypatch.setenv("DATABASE_URL", url)
        monkeypatch.setenv("BOTPOOL_INSTALLATION__ID", "test")
        monkeypatch.setenv("BOTPOOL_INSTALLATION__SECRET", "9c41e07d2ab85f36c1e0d4972f6ba853")
        for _ in range(2):
            assert main(["migrate"]) == 1
            (line,) = capsys.readouterr().err.splitlines()
            assert "belongs to another system" in line
            assert "database.url" in line
            assert contents(url) == before
    finally:
        postgres.drop_database(url)


def test_tables_of_another_system_under_other_names_are_no_obstacle(postgres: TestPostgres) -> None:
    url = postgres.create_database()
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE robots (id int)")
            connection.execute("CREATE SCHEMA other CREATE TABLE bots (id int)")
        assert migrate(url) == known_names()
        assert migrate(url) == []
    finally:
        postgres.drop_database(url)
