"""Heartbeats are heap-only updates, which write no index entries."""

import asyncio

import psycopg

from botpool.engine.agents.heartbeats import Heartbeats
from tests.support.replicas import Stage, bot_request, pool

AGENTS = 50
BEATS = 60


async def test_most_heartbeats_write_no_index_entry(stage: Stage) -> None:
    replica = await stage.replica(pool(AGENTS))
    await asyncio.gather(*(replica.admission.admit(bot_request()) for _ in range(AGENTS)))
    heartbeats = Heartbeats(replica.database)
    agents = [(slot["assignment_id"], slot["assigned_bot_id"]) for slot in stage.slots()]
    for _ in range(BEATS):
        await asyncio.gather(*(heartbeats.record(*agent) for agent in agents))
    await replica.database.close()  # the sessions flush their statistics
    with psycopg.connect(stage.url, autocommit=True) as connection:
        for _ in range(100):
            row = connection.execute(
                "SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables "
                "WHERE relname = 'bot_heartbeats'"
            ).fetchone()
            assert row is not None
            if row[0] >= AGENTS * (BEATS - 1):
                break
            await asyncio.sleep(0.1)
            connection.execute("SELECT pg_stat_clear_snapshot()")
    updates, in_place = row
    assert updates >= AGENTS * (BEATS - 1)
    assert in_place / updates >= 0.9
