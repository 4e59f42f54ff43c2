"""The connection pool: dead idle connections, and statements in progress."""

import asyncio

import psycopg
import pytest

from botpool.domain.errors import DatabaseUnavailable
from botpool.store.database import Database
from botpool.store.maintenance import list_migrations
from botpool.store.query import Statement
from tests.support.replaced_statements import replaced_statements

_CONNECTIONS = 4
_OTHER_CONNECTIONS = (
    "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
)


async def test_dead_idle_connections_are_replaced_after_one_failure(database_url: str) -> None:
    database = Database(database_url)
    await database.open()
    await _use(database, _CONNECTIONS)
    with psycopg.connect(database_url, autocommit=True) as server:
        server.execute(f"SELECT pg_terminate_backend(pid, 10000) {_OTHER_CONNECTIONS}")
        with pytest.raises(DatabaseUnavailable):
            await list_migrations(database)
        async with asyncio.timeout(30):
            while len(server.execute(f"SELECT {_OTHER_CONNECTIONS}").fetchall()) < _CONNECTIONS:
                await asyncio.sleep(0.05)
    await _use(database, _CONNECTIONS)
    await database.close()


async def test_database_is_idle_without_statements_in_progress(database_url: str) -> None:
    database = Database(database_url)
    await database.open()
    statements = {"sleep": "SELECT pg_sleep(60)", "fail": "SELECT 1 / 0"}
    with replaced_statements(**statements):
        assert database.is_idle()
        sleeping = asyncio.create_task(database.query(Statement("sleep", {}, list)))
        await asyncio.sleep(0.1)
        assert not database.is_idle()
        sleeping.cancel()
        await asyncio.wait([sleeping])
        assert database.is_idle()
        with pytest.raises(psycopg.errors.DivisionByZero):
            await database.query(Statement("fail", {}, list))
        assert database.is_idle()
    await database.close()


async def test_cancelled_pipeline_with_failed_statement_does_not_disturb_later_ones(
    database_url: str,
) -> None:
    """A cancellation during the error leaves results unread: the connection must not be reused."""
    database = Database(database_url, max_connections=2)
    await database.open()
    statements = {"echo": "SELECT %(n)s::bigint AS n", "fail": "SELECT 1 / 0 AS n"}
    with replaced_statements(**statements):
        for turn in range(400):
            together = [Statement(name, {"n": turn}, list) for name in ("echo", "fail", "echo")]
            task = asyncio.create_task(database.commit(together))
            for _ in range(turn % 40):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises((asyncio.CancelledError, psycopg.errors.DivisionByZero)):
                await task
            later = (database.query(Statement("echo", {"n": n}, list)) for n in range(2))
            assert await asyncio.gather(*later) == [[{"n": 0}], [{"n": 1}]]
    await database.close()


async def _use(database: Database, connections: int) -> None:
    """Use several connections at the same time."""
    together = asyncio.Barrier(connections)

    async def hold(_: object) -> None:
        await together.wait()

    await asyncio.gather(*(database.transact(hold) for _ in range(connections)))
