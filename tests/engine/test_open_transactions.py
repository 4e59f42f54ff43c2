"""Foreign transactions that hold back the stream, and addresses that reach one replica only."""

import asyncio

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from structlog.testing import capture_logs

from botpool.engine.maintenance.doctor import database
from botpool.store.readonly_connection import ReadonlyConnection
from tests.support.postgres import TestPostgres
from tests.support.replicas import Stage, bot_request, pool


@pytest.fixture(autouse=True)
def every_age_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botpool.engine.observability.metrics_export._HELD_S", 0.0)
    monkeypatch.setattr(database, "_LONG_TRANSACTION_S", 0.0)


async def test_transaction_in_another_database_is_named(
    stage: Stage, postgres: TestPostgres
) -> None:
    replica = await stage.replica(pool(1))
    other_url = postgres.create_database()
    name = conninfo_to_dict(other_url)["dbname"]
    with psycopg.connect(other_url, application_name="reports") as foreign:
        foreign.execute("CREATE TABLE written (id integer)")
        pid = foreign.info.backend_pid
        text = (await replica.metrics_export.text()).decode()
        async with ReadonlyConnection.connected(stage.url) as connection:
            findings = [each async for each in database.check_activity(connection)]
        foreign.rollback()
    postgres.drop_database(other_url)
    labels = f'application="reports",database="{name}",kind="session",pid="{pid}"'
    assert f"botpool_database_open_transaction_seconds{{{labels}}}" in text
    (found,) = [each for each in findings if each.check == "open_transactions"]
    assert found.result == "warning"
    assert f"session, pid {pid}, database {name}, application reports, open for" in found.found


async def test_log_names_the_transaction_that_holds_the_stream(
    stage: Stage, postgres: TestPostgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botpool.engine.stream.changes._HELD_S", 0.0)
    replica = await stage.replica(pool(1))
    with (
        capture_logs() as logs,
        psycopg.connect(postgres.url(), application_name="reports") as foreign,
    ):
        foreign.execute("SELECT pg_current_xact_id()")
        await replica.admission.admit(bot_request())
        subscription = await replica.changes.subscribe(None)
        async with asyncio.timeout(30):
            while not any(each["event"] == "stream.held" for each in logs):
                await asyncio.sleep(0.02)
        subscription.close()
    await replica.changes.close()
    held = next(each for each in logs if each["event"] == "stream.held")
    assert any("application reports" in each for each in held["held_by"])


async def test_replicas_with_different_addresses_are_reported(stage: Stage) -> None:
    first, second = await stage.replica(pool(1)), await stage.replica(pool(1))
    first.liveness._public_url = "http://10.0.0.5:8700"
    await first.liveness.record()
    with capture_logs() as logs:
        await second.start()
        async with asyncio.timeout(60):
            while not any(each["event"] == "public_url.unreachable" for each in logs):
                await asyncio.sleep(0.02)
        await second.stop()
    (warning,) = [each for each in logs if each["event"] == "public_url.unreachable"]
    assert "http://10.0.0.5:8700" in warning["problem"]
    await second.liveness.record()
    async with ReadonlyConnection.connected(stage.url) as connection:
        findings = [each async for each in database.check_activity(connection)]
    (found,) = [each for each in findings if each.check == "public_url"]
    assert found.result == "warning"
    assert "http://10.0.0.5:8700" in found.found
