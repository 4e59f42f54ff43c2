"""Cleanup deletes stray containers and old rows, and nothing else; operators command slots."""

from dataclasses import replace

import pytest

from botpool.backends.protocol import ContainerSpec
from botpool.domain.errors import BackendUnavailable
from botpool.domain.policy import Policy
from botpool.engine.maintenance.cleanup import CleanupResult
from botpool.engine.replica import Replica
from tests.support.fences import NO_ASSIGNMENT
from tests.support.replicas import Stage, bot_request, key, pool


async def add_stray(stage: Stage, name: str = "pool-google-meet-099") -> str:
    """Create a container with our label that belongs to no slot."""
    spec = ContainerSpec(name=name, pool_name="google-meet", image="demo")
    return await stage.backend.ensure(spec, stop_through=NO_ASSIGNMENT, timeout_s=1)


async def clean(replica: Replica, *, force: bool = False) -> CleanupResult:
    return await replica.cleanup.clean(all_strays=force)


async def test_stray_container_is_deleted_after_ten_minutes(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    await stage.run_bot(replica)
    stray = await add_stray(stage)
    assert (await clean(replica)).deleted_containers == 0
    stage.clock.move(599)
    assert (await clean(replica)).deleted_containers == 0
    stage.clock.move(2)
    assert (await clean(replica)).deleted_containers == 1
    assert stray not in stage.backend.containers
    assert len(stage.backend.containers) == 1, "the container of the slot remains"


async def test_failed_list_deletes_nothing(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    await add_stray(stage)
    await clean(replica)
    stage.clock.move(3600)
    stage.backend.fail("list_owned", BackendUnavailable("502"))
    assert await clean(replica) == CleanupResult()
    assert len(stage.backend.containers) == 1


async def test_container_of_slot_in_creation_is_no_stray(stage: Stage) -> None:
    """Lesson 2: the slot exists, and the container's id is not written yet."""
    replica = await stage.replica(pool(1))
    await replica.admission.admit(bot_request())
    await add_stray(stage, "pool-google-meet-001")
    for _ in range(3):
        assert (await clean(replica)).deleted_containers == 0
        stage.clock.move(700)


async def test_stray_that_was_absent_waits_ten_minutes_again(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    stray = await add_stray(stage)
    await clean(replica)
    container = stage.backend.containers.pop(stray)  # type: ignore[call-overload]
    stage.clock.move(700)
    await clean(replica)
    stage.backend.containers[stray] = container  # type: ignore[index]
    assert (await clean(replica)).deleted_containers == 0


async def test_many_strays_are_deleted_only_with_force(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    for number in range(5):
        await add_stray(stage, f"pool-google-meet-{number + 50:03d}")
    await clean(replica)
    stage.clock.move(700)
    assert (await clean(replica)).deleted_containers == 0
    assert len(stage.backend.containers) == 5
    assert (await clean(replica, force=True)).deleted_containers == 5


async def test_old_rows_are_pruned_and_young_rows_kept(stage: Stage) -> None:
    policy = replace(Policy(), bots_days=30, history_days=20, idempotency_days=7)
    replica = await stage.replica(pool(2), policy=policy)
    old = (await replica.admission.admit(bot_request(), key("old"))).bot
    await stage.settle(replica)
    await stage.end(replica, old.id)
    await stage.settle(replica)
    live = (await stage.run_bot(replica)).bot
    for bot_id in (old.id, live.id):
        add_data(stage, bot_id)
    day = 86_400
    stage.clock.move(8 * day)
    assert (await clean(replica)).pruned_rows == 1
    assert stage.rows("SELECT key FROM idempotency_keys") == []
    stage.clock.move(13 * day)
    assert (await clean(replica)).pruned_rows > 5
    assert stage.bot(old.id)["status"] == "DONE"
    stage.clock.move(10 * day)
    await clean(replica)
    assert [row["id"] for row in stage.rows("SELECT id FROM bots")] == [live.id]
    assert [row["bot_id"] for row in stage.rows("SELECT bot_id FROM assignments")] == [live.id]
    for table in BOT_DATA:
        assert stage.rows(f"SELECT bot_id FROM {table}") == [{"bot_id": live.id}], table
    # The invariants need complete histories, which the pruning removed.
    stage.rows("TRUNCATE history, bots, bot_pool_slots, assignments CASCADE")


BOT_DATA = ("bot_artifacts", "bot_screenshots", "bot_outputs", "bot_commands")


def add_data(stage: Stage, bot_id: int) -> None:
    """Give a bot a row in each table of bots' data."""
    stage.rows(
        "INSERT INTO bot_artifacts (bot_id, number, kind, location, at)"
        " VALUES (%s, 1, 'recording', 's3://a', now())",
        bot_id,
    )
    stage.rows(
        "INSERT INTO bot_screenshots (bot_id, number, content, content_type, note, at)"
        " VALUES (%s, 1, 'x', 'image/png', '', now())",
        bot_id,
    )
    stage.rows(
        "INSERT INTO bot_outputs (bot_id, assignment_id, output, is_whole, at)"
        " VALUES (%s, 1, 'x', true, now()) ON CONFLICT DO NOTHING",
        bot_id,
    )
    stage.rows(
        "INSERT INTO bot_commands (bot_id, kind, data, at) VALUES (%s, 'chat', '{}', now())", bot_id
    )


@pytest.mark.parametrize("status", ["deploying", "busy"])
async def test_operator_releases_slot(stage: Stage, status: str) -> None:
    replica = await stage.replica(pool(1))
    if status == "busy":
        bot = (await stage.run_bot(replica)).bot
    else:
        bot = (await replica.admission.admit(bot_request())).bot
    slot = stage.slots()[0]
    assert slot["status"] == status
    await replica.slot_commands.release(slot["id"], reason="released by ops")
    assert stage.bot(bot.id)["failure_code"] == "operator"
    await stage.settle(replica)
    assert stage.slots()[0]["status"] == "idle"
    written = stage.rows("SELECT reason FROM history WHERE to_state = 'releasing'")
    assert written == [{"reason": "The slot was released by ops."}]


async def test_operator_recovers_slot_in_every_state(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = (await replica.admission.admit(bot_request())).bot
    await replica.slot_commands.recover(stage.slots()[0]["id"], reason="recovered by ops")
    await stage.settle(replica)
    assert stage.statuses(bot.id) == ["JOINING_CALL"], "a bot that was only deploying is retried"
    await replica.slot_commands.recover(stage.slots()[0]["id"], reason="recovered by ops")
    assert stage.bot(bot.id)["failure_code"] == "operator"
    await stage.settle(replica)
    await replica.slot_commands.recover(stage.slots()[0]["id"], reason="recovered by ops")
    assert stage.slots()[0]["status"] == "error"
    await replica.slot_commands.recover(stage.slots()[0]["id"], reason="recovered by ops")
    await stage.settle(replica)
    assert stage.slots()[0]["status"] == "idle"


async def test_operator_deletes_slot_with_its_bot(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot
    waiting = (await replica.admission.admit(bot_request())).bot
    await replica.slot_commands.delete(stage.slots()[0]["id"], reason="deleted by ops")
    assert stage.bot(bot.id)["failure_code"] == "operator"
    first = stage.slots()[0]["id"]
    await stage.settle(replica)
    assert [slot["id"] for slot in stage.slots()] != [first]
    assert stage.statuses(waiting.id) == ["JOINING_CALL"], "the pool grew again for the queued bot"
