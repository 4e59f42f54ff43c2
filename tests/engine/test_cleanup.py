"""The cleanup: strays go when they are surely strays, rows when they are old; nothing else ever."""

from dataclasses import replace

import pytest

from botpool.backends.protocol import ContainerSpec
from botpool.domain.errors import BackendUnavailable
from botpool.domain.policy import Policy
from botpool.engine.maintenance.cleanup import CleanupResult
from botpool.engine.replica import Replica
from tests.support.replicas import Stage, key, pool, wish


async def stray(stage: Stage, name: str = "pool-google-meet-099") -> str:
    spec = ContainerSpec(name=name, pool_name="google-meet", image="demo")
    return await stage.backend.ensure(spec, timeout_s=1)


async def clean(replica: Replica, *, force: bool = False) -> CleanupResult:
    return await replica.cleanup.clean(all_strays=force)


async def test_a_container_without_a_slot_goes_after_ten_minutes(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    await stage.run_bot(replica)
    lost = await stray(stage)
    assert (await clean(replica)).deleted_containers == 0
    stage.clock.move(599)
    assert (await clean(replica)).deleted_containers == 0
    stage.clock.move(2)
    assert (await clean(replica)).deleted_containers == 1
    assert lost not in stage.backend.containers
    assert len(stage.backend.containers) == 1, "the one with a slot stays"


async def test_a_list_that_fails_is_no_evidence(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    await stray(stage)
    await clean(replica)
    stage.clock.move(3600)
    stage.backend.fail("list_owned", BackendUnavailable("502"))
    assert await clean(replica) == CleanupResult()
    assert len(stage.backend.containers) == 1


async def test_a_container_that_is_just_being_made_is_none(stage: Stage) -> None:
    """Lesson 2: its row is there, its id is not written yet."""
    replica = await stage.replica(pool(1))
    await replica.admission.admit(wish())
    await stray(stage, "pool-google-meet-001")
    for _ in range(3):
        assert (await clean(replica)).deleted_containers == 0
        stage.clock.move(700)


async def test_one_that_found_its_slot_again_begins_anew(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    lost = await stray(stage)
    await clean(replica)
    container = stage.backend.containers.pop(lost)  # type: ignore[call-overload]
    stage.clock.move(700)
    await clean(replica)
    stage.backend.containers[lost] = container  # type: ignore[index]
    assert (await clean(replica)).deleted_containers == 0


async def test_many_strays_at_once_wait_for_an_operator(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    for number in range(5):
        await stray(stage, f"pool-google-meet-{number + 50:03d}")
    await clean(replica)
    stage.clock.move(700)
    assert (await clean(replica)).deleted_containers == 0
    assert len(stage.backend.containers) == 5
    assert (await clean(replica, force=True)).deleted_containers == 5


async def test_old_rows_are_forgotten_and_young_ones_kept(stage: Stage) -> None:
    policy = replace(Policy(), bots_days=30, history_days=20, idempotency_days=7)
    replica = await stage.replica(pool(2), policy=policy)
    old = (await replica.admission.admit(wish(), key("old"))).bot
    await stage.settle(replica)
    await stage.end(replica, old.id)
    await stage.settle(replica)
    lives = (await stage.run_bot(replica)).bot
    day = 86_400
    stage.clock.move(8 * day)
    assert (await clean(replica)).pruned_rows == 1
    assert stage.rows("SELECT key FROM idempotency_keys") == []
    stage.clock.move(13 * day)
    assert (await clean(replica)).pruned_rows > 5
    assert stage.bot(old.id)["status"] == "DONE"
    stage.clock.move(10 * day)
    await clean(replica)
    assert [row["id"] for row in stage.rows("SELECT id FROM bots")] == [lives.id]
    assert [row["bot_id"] for row in stage.rows("SELECT bot_id FROM assignments")] == [lives.id]
    # The invariants read whole chains of history.
    stage.rows("TRUNCATE history, bots, bot_pool_slots, assignments CASCADE")


@pytest.mark.parametrize("status", ["deploying", "busy"])
async def test_an_operator_releases_a_slot(stage: Stage, status: str) -> None:
    replica = await stage.replica(pool(1))
    if status == "busy":
        bot = (await stage.run_bot(replica)).bot
    else:
        bot = (await replica.admission.admit(wish())).bot
    slot = stage.slots()[0]
    assert slot["status"] == status
    await replica.slot_commands.release(slot["id"], reason="released by ops")
    assert stage.bot(bot.id)["failure_code"] == "operator"
    await stage.settle(replica)
    assert stage.slots()[0]["status"] == "idle"
    told = stage.rows("SELECT reason FROM history WHERE to_state = 'releasing'")
    assert told == [{"reason": "The slot was released by ops."}]


async def test_an_operator_recovers_a_slot_in_every_state(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = (await replica.admission.admit(wish())).bot
    await replica.slot_commands.recover(stage.slots()[0]["id"], reason="recovered by ops")
    await stage.settle(replica)
    assert stage.statuses(bot.id) == ["JOINING_CALL"], "what only deployed is tried again"
    await replica.slot_commands.recover(stage.slots()[0]["id"], reason="recovered by ops")
    assert stage.bot(bot.id)["failure_code"] == "operator"
    await stage.settle(replica)
    await replica.slot_commands.recover(stage.slots()[0]["id"], reason="recovered by ops")
    assert stage.slots()[0]["status"] == "error"
    await replica.slot_commands.recover(stage.slots()[0]["id"], reason="recovered by ops")
    await stage.settle(replica)
    assert stage.slots()[0]["status"] == "idle"


async def test_an_operator_deletes_a_slot_with_its_bot(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot
    waiting = (await replica.admission.admit(wish())).bot
    await replica.slot_commands.delete(stage.slots()[0]["id"], reason="deleted by ops")
    assert stage.bot(bot.id)["failure_code"] == "operator"
    first = stage.slots()[0]["id"]
    await stage.settle(replica)
    assert [slot["id"] for slot in stage.slots()] != [first]
    assert stage.statuses(waiting.id) == ["JOINING_CALL"], "the pool grew again for who waited"
