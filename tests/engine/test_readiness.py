"""Readiness: late loops, refused writes and its own time limit."""

import asyncio

import psycopg
import pytest

from botpool.domain.errors import DatabaseUnavailable
from botpool.engine.runtime.loop import Loop
from tests.support.replaced_statements import replaced_statements
from tests.support.replicas import Stage, pool


async def test_replica_with_a_hanging_loop_is_not_ready(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botpool.engine.runtime.loop._LATE_AFTER_S", 0.2)
    replica = await stage.replica(pool(1))
    released = asyncio.Event()

    async def hang() -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                if loop.late_s is None:
                    raise

    loop = Loop("stuck", hang, interval_s=0.01)
    replica.readiness.watch([loop], refused_writes=lambda: None)
    loop.start()
    assert (await replica.readiness.state()).ready
    async with asyncio.timeout(30):
        while (state := await replica.readiness.state()).ready:
            await asyncio.sleep(0.02)
        assert state.problem
        assert "loop stuck last finished a round" in state.problem
        assert not state.is_database_problem
        released.set()
        while not (await replica.readiness.state()).ready:
            await asyncio.sleep(0.02)
    await loop.stop()


async def test_hanging_round_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botpool.engine.runtime.loop._LATE_AFTER_S", 0.1)
    rounds = []

    async def hang() -> None:
        rounds.append(len(rounds))
        await asyncio.Event().wait()

    loop = Loop("stuck", hang, interval_s=0.01)
    loop.start()
    async with asyncio.timeout(30):
        while len(rounds) < 2:
            await asyncio.sleep(0.02)
        while loop.late_s is None:
            await asyncio.sleep(0.02)
    await loop.stop()
    assert loop.late_s is None, "a stopped loop is not late"


async def test_read_only_database_is_not_ready(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    role = "SELECT false AS is_standby, true AS is_read_only"
    with replaced_statements(read_server_role=role):
        state = await replica.readiness.state()
    assert not state.ready
    assert state.problem
    assert "accepts no writes" in state.problem
    assert (await replica.readiness.state()).ready


async def test_refused_write_fails_readiness_until_a_write_succeeds(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    refuse = "DO $$ BEGIN RAISE EXCEPTION 'no space' USING ERRCODE = '53100'; END $$"
    with replaced_statements(insert_write_probe=refuse):
        with pytest.raises(DatabaseUnavailable):
            await replica.liveness.check()
        state = await replica.readiness.state()
    assert not state.ready
    assert state.problem
    assert "disk is full" in state.problem
    assert replica.liveness.wake.is_set(), "the next check runs at once"
    await replica.liveness.check()
    assert (await replica.readiness.state()).ready


async def test_write_probe_takes_a_page_and_leaves_no_row(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    for _ in range(5):
        await replica.liveness.check()
    (probe,) = stage.rows(
        "SELECT count(*) AS rows, pg_relation_size('write_probes') AS size FROM write_probes"
    )
    assert probe["rows"] == 0
    assert probe["size"] >= 5 * 8192


async def test_readiness_answers_within_its_limit(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a locked table nor a slow backend delays the answer."""
    monkeypatch.setattr("botpool.engine.observability.readiness._CHECK_TIMEOUT_S", 0.3)
    replica = await stage.replica(pool(1))
    with psycopg.connect(stage.url) as other:
        other.execute("LOCK TABLE schema_migrations IN ACCESS EXCLUSIVE MODE")
        async with asyncio.timeout(15):
            state = await replica.readiness.state()
        assert state.problem == "The database did not answer within 0.3 s."
    async with asyncio.timeout(30):
        while not (await replica.readiness.state()).ready:
            await asyncio.sleep(0.02)


async def test_replica_that_is_about_to_stop_is_not_ready(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    assert (await replica.readiness.state()).ready
    replica.readiness.drain()
    state = await replica.readiness.state()
    assert (state.ready, state.problem) == (False, "This replica is about to stop.")
