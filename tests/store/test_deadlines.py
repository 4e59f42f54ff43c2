"""Half-open connections: no statement waits for an answer for ever."""

import asyncio
from collections.abc import AsyncIterator

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from botpool.domain.errors import DatabaseUnavailable
from botpool.engine.runtime.wakeups import Wakeups
from botpool.store.database import Database
from botpool.store.maintenance import list_migrations
from botpool.store.readonly_connection import ReadonlyConnection
from tests.support.postgres import TestPostgres
from tests.support.tcp_proxy import TcpProxy

TIMEOUT_S = 0.5
LIMIT_S = 30.0
"""Without a deadline a statement waits for many minutes; a slow machine needs some seconds."""


@pytest.fixture
async def proxy(postgres: TestPostgres) -> AsyncIterator[TcpProxy]:
    async with TcpProxy.running(lambda: ("127.0.0.1", postgres.port)) as proxy:
        yield proxy


@pytest.fixture
def proxied_url(database_url: str, proxy: TcpProxy) -> str:
    name = conninfo_to_dict(database_url)["dbname"]
    return f"postgresql://botpool@127.0.0.1:{proxy.port}/{name}"


@pytest.fixture
async def database(proxied_url: str) -> AsyncIterator[Database]:
    database = Database(proxied_url, statement_timeout_s=TIMEOUT_S)
    await database.open()
    yield database
    await database.close()


async def test_statement_on_half_open_connection_fails_at_its_deadline(
    database: Database, proxy: TcpProxy
) -> None:
    await list_migrations(database)
    proxy.lose_connections()
    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(DatabaseUnavailable, match="no answer within"):
            await list_migrations(database)
        assert await list_migrations(database), "the other connections are replaced too"


async def test_stalled_transaction_fails_at_its_deadline(
    database: Database, proxy: TcpProxy
) -> None:
    async def stall(_: object) -> None:
        proxy.lose_connections()

    async with asyncio.timeout(LIMIT_S):
        with pytest.raises(DatabaseUnavailable, match="no answer within"):
            await database.transact(stall)
        assert await list_migrations(database)


async def test_statement_fails_while_the_database_cannot_be_reached(
    database: Database, proxy: TcpProxy
) -> None:
    proxy.stall()
    async with asyncio.timeout(LIMIT_S):
        for _ in range(2):
            with pytest.raises(DatabaseUnavailable):
                await list_migrations(database)
        proxy.resume()
        while True:
            try:
                assert await list_migrations(database)
                break
            except DatabaseUnavailable:
                await asyncio.sleep(0.05)


async def test_listener_notices_a_half_open_connection(
    database: Database, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botpool.engine.runtime.wakeups._PROBE_S", 0.1)
    monkeypatch.setattr("botpool.store.database.CONNECT_TIMEOUT_S", 1.0)
    wakeups = Wakeups(database, owner="one")
    wakeups.start()
    async with asyncio.timeout(LIMIT_S):
        await _until(lambda: wakeups.listening)
        proxy.stall()
        await _until(lambda: not wakeups.listening)
        proxy.resume()
        await _until(lambda: wakeups.listening)
    await wakeups.stop()


async def test_doctor_gives_up_on_a_half_open_connection(
    proxied_url: str, proxy: TcpProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botpool.store.readonly_connection._DEADLINE_S", 0.5)
    async with asyncio.timeout(LIMIT_S), ReadonlyConnection.connected(proxied_url) as connection:
        await list_migrations(connection)
        proxy.lose_connections()
        with pytest.raises(DatabaseUnavailable):
            await list_migrations(connection)


async def test_dropped_packets_end_a_connection_within_seconds(database: Database) -> None:
    """The kernel ends a connection whose bytes are not acknowledged."""
    connection = await database.listener()
    options = {
        each.keyword.decode(): each.val.decode() for each in connection.pgconn.info if each.val
    }
    await connection.close()
    assert 0 < int(options["tcp_user_timeout"]) <= 15_000
    assert 0 < int(options["keepalives_idle"]) <= 30


async def _until(condition: object) -> None:
    assert callable(condition)
    while not condition():
        await asyncio.sleep(0.02)


def test_socket_options_are_accepted_by_libpq(database_url: str) -> None:
    from botpool.store.deadlines import SOCKET_OPTIONS

    with psycopg.connect(database_url, **SOCKET_OPTIONS) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
