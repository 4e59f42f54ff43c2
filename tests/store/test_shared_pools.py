"""`pools.shared` tells a match whether it must regard turns and quotas; triggers keep it."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

POOL = (
    "INSERT INTO pools (pool_name, backend, image, max_size, heartbeats) "
    "VALUES ('{}', 'process', 'demo', 5, 'required')"
)
TENANT = "INSERT INTO tenants (name) VALUES ('{}')"


@pytest.fixture
def connection(database_url: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(POOL.format("zoom"))
        yield connection


def shared(connection: psycopg.Connection) -> dict[str, bool]:
    return dict(connection.execute("SELECT pool_name, shared FROM pools").fetchall())


def test_pools_are_shared_with_a_second_tenant(connection: psycopg.Connection) -> None:
    assert shared(connection) == {"zoom": False}
    connection.execute(TENANT.format("acme"))
    connection.execute(POOL.format("teams"))
    assert shared(connection) == {"zoom": True, "teams": True}


def test_pools_are_shared_while_the_only_tenant_has_a_quota(
    connection: psycopg.Connection,
) -> None:
    connection.execute("UPDATE tenants SET max_queued = 1")
    assert shared(connection) == {"zoom": False}
    connection.execute("UPDATE tenants SET max_live = 1")
    assert shared(connection) == {"zoom": True}
    connection.execute("UPDATE tenants SET max_live = NULL")
    assert shared(connection) == {"zoom": False}


@pytest.mark.parametrize(
    "order",
    [(POOL.format("teams"), TENANT.format("acme")), (TENANT.format("acme"), POOL.format("teams"))],
)
def test_pool_and_second_tenant_of_concurrent_transactions(
    connection: psycopg.Connection, database_url: str, order: tuple[str, str]
) -> None:
    """The second waits for the first: each would miss the row that the other has not committed."""
    first, second = order
    with psycopg.connect(database_url) as one, psycopg.connect(database_url) as other:
        one.execute(first)
        with ThreadPoolExecutor(1) as thread:
            waiting = thread.submit(lambda: (other.execute(second), other.commit()))
            while not waiting.done() and not is_blocked(connection, other.info.backend_pid):
                pass
            one.commit()
            waiting.result(timeout=30)
    assert shared(connection) == {"zoom": True, "teams": True}


def is_blocked(connection: psycopg.Connection, pid: int) -> bool:
    found = connection.execute("SELECT pg_blocking_pids(%s) <> '{}'", [pid]).fetchone()
    return found is not None and found[0]
