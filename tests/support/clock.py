"""Time that a test can move: the database's one clock, plus an offset kept in a table."""

import psycopg


class Clock:
    def __init__(self, url: str) -> None:
        self._url = url

    def install(self) -> None:
        """Replace the body of `botpool_now`. Everything else stays as it is in production."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("CREATE TABLE test_clock (moved_by interval NOT NULL)")
            connection.execute("INSERT INTO test_clock VALUES ('0')")
            connection.execute(
                "CREATE OR REPLACE FUNCTION botpool_now() RETURNS timestamptz LANGUAGE sql STABLE "
                "AS 'SELECT statement_timestamp() + (SELECT moved_by FROM test_clock)'"
            )

    def move(self, seconds: float) -> None:
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(
                "UPDATE test_clock SET moved_by = moved_by + make_interval(secs => %s)", [seconds]
            )

    def freeze(self, at: str = "2026-01-05T10:00:00Z") -> None:
        """From now on only `move` moves time: the same run gives the same times."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute("UPDATE test_clock SET moved_by = '0'")
            connection.execute(
                "CREATE OR REPLACE FUNCTION botpool_now() RETURNS timestamptz LANGUAGE sql STABLE "
                f"AS $$SELECT timestamptz '{at}' + (SELECT moved_by FROM test_clock)$$"
            )
            # Assignment ids follow the real clock; without it they count from 1.
            connection.execute(
                "CREATE OR REPLACE FUNCTION botpool_clock_id() RETURNS bigint "
                "LANGUAGE sql VOLATILE AS 'SELECT 1::bigint'"
            )
