"""A database that was restored into a server with lower transaction ids."""

from dataclasses import replace

from botpool.domain.policy import Policy
from botpool.engine.maintenance.restored_history import renumber_restored_history
from tests.support.replicas import Stage, bot_request, pool

DAY = 86_400


async def test_restored_history_sorts_before_new_epoch(stage: Stage) -> None:
    """So retention deletes it first."""
    policy = replace(Policy(), history_days=20)
    replica = await stage.replica(pool(2), policy=policy)
    before = (await replica.admission.admit(bot_request())).bot
    stage.rows("UPDATE history SET xid = (xid::text::bigint + 1000000000)::text::xid8")
    restored = stage.rows("SELECT id FROM history ORDER BY id")
    stage.clock.move(15 * DAY)
    await replica.cleanup.run()
    after = (await replica.admission.admit(bot_request())).bot
    in_order = stage.rows("SELECT id, bot_id FROM history ORDER BY xid, id")
    assert [row["id"] for row in in_order] == sorted(row["id"] for row in in_order)
    assert [{"id": row["id"]} for row in in_order[: len(restored)]] == restored
    stage.clock.move(10 * DAY)
    await replica.cleanup.run()
    kept = {row["bot_id"] for row in stage.rows("SELECT bot_id FROM history")}
    assert after.id in kept and before.id not in kept
    # The invariants need complete histories, which the pruning removed.
    stage.rows("TRUNCATE history, bots, bot_pool_slots, assignments CASCADE")


async def test_history_of_this_server_is_not_renumbered(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    await stage.run_bot(replica)
    before = stage.rows("SELECT id, xid::text FROM history ORDER BY id")
    await renumber_restored_history(replica.database)
    assert stage.rows("SELECT id, xid::text FROM history ORDER BY id") == before
