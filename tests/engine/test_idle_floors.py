"""Floors of idle slots: their containers are created before a bot needs them, surplus ones go."""

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from botpool.domain.errors import BackendRefused, BackendUnavailable
from botpool.domain.observation import ContainerState
from botpool.domain.warm import WarmWindow
from botpool.engine.replica import Replica
from tests.support.replicas import Stage, bot_request, pool
from tests.support.scheduled_bots import NOW
from tests.support.standbys import StandbyAgent, hot_pool, keep

KNOWN = "INSERT INTO known_images VALUES ('process', 'here', 'demo', botpool_now())"


def prepared(stage: Stage) -> int:
    """Count the idle slots that have a container."""
    slots = stage.slots()
    return sum(slot["status"] == "idle" and bool(slot["container_id"]) for slot in slots)


def called(stage: Stage, call: str) -> int:
    return sum(name == call for name, _ in stage.backend.calls)


async def test_floor_creates_containers_and_starts_none(stage: Stage) -> None:
    stage.rows(KNOWN)
    replica = await stage.replica(hot_pool(0, idle=3))
    await keep(stage, replica)
    assert prepared(stage) == 3
    assert stage.backend.running == [] and called(stage, "start") == 0
    await keep(stage, replica)
    assert len(stage.slots()) == 3, "the floor is reached"
    kinds = Counter(row["kind"] for row in stage.rows("SELECT kind FROM history"))
    assert kinds["slot.prepared"] == 3


async def test_bot_takes_a_prepared_slot_and_the_floor_is_refilled(stage: Stage) -> None:
    stage.rows(KNOWN)
    replica = await stage.replica(hot_pool(0, idle=2))
    await keep(stage, replica)
    bot = (await replica.admission.admit(bot_request())).bot
    (assignment,) = stage.rows("SELECT warm FROM assignments")
    assert assignment["warm"]
    await keep(stage, replica)
    assert stage.slot_of(bot.id)["status"] == "busy"
    assert (len(stage.slots()), prepared(stage)) == (3, 2)


async def test_image_is_pulled_once_by_a_standby_that_ends_then(stage: Stage) -> None:
    stage.backend.state_after_start = ContainerState.STARTING
    replica = await stage.replica(hot_pool(0, idle=3))
    await keep(stage, replica)
    assert prepared(stage) == 3
    await keep(stage, replica)
    (starting,) = [slot for slot in stage.slots() if slot["standby"]]
    assert starting["leads_image"] == "demo"
    await StandbyAgent(replica, starting).open(stage)
    await keep(stage, replica)
    await keep(stage, replica)
    assert [slot["standby"] for slot in stage.slots()] == [None] * 3
    assert (prepared(stage), called(stage, "start")) == (3, 1)
    assert stage.backend.running == []


async def test_changed_image_is_prepared_again(stage: Stage) -> None:
    stage.rows(KNOWN)
    await keep(stage, await stage.replica(hot_pool(0, idle=2)))
    other = await stage.replica(pool(5, image="other", warm=hot_pool(0, idle=2).warm))
    await keep(stage, other)
    assert [slot["image"] for slot in stage.slots()] == ["other", "other"]


async def test_window_raises_the_idle_floor_and_the_ttl_lowers_it_again(stage: Stage) -> None:
    stage.rows(KNOWN)
    starts, ends = NOW + timedelta(minutes=10), NOW + timedelta(minutes=20)
    window = WarmWindow(
        days=tuple(range(7)),
        starts=f"{starts:%H:%M}",
        ends=f"{ends:%H:%M}",
        timezone="UTC",
        idle=4,
    )
    replica = await stage.replica(hot_pool(0, idle=1, windows=(window,), idle_ttl_s=1300))
    await keep(stage, replica)
    assert prepared(stage) == 1
    stage.clock.move(600)
    await keep(stage, replica)
    assert prepared(stage) == 4
    stage.clock.move(601)
    await keep(stage, replica)
    assert prepared(stage) == 4, "the slots of the window are not old enough"
    stage.clock.move(700)
    await keep(stage, replica)
    assert (len(stage.slots()), stage.backend.running) == (1, [])
    assert len(stage.backend.containers) == 1
    (reason,) = {
        row["reason"]
        for row in stage.rows("SELECT reason FROM history WHERE to_state = 'deleting'")
    }
    assert reason == "without a bot for longer than the pool keeps idle slots"


async def test_ttl_removes_unused_slots_and_keeps_used_held_and_cordoned_ones(
    stage: Stage,
) -> None:
    replica = await stage.replica(hot_pool(0, idle_ttl_s=60, max_size=8))
    bots = [(await stage.run_bot(replica)).bot.id for _ in range(5)]
    for bot in bots:
        await stage.end(replica, bot)
    await stage.settle(replica)
    cordoned, held, recent = (slot["id"] for slot in stage.slots()[:3])
    stage.rows(
        "UPDATE bot_pool_slots SET cordoned = true, version = version + 1 WHERE id = %s", cordoned
    )
    stage.rows("UPDATE bot_pool_slots SET held = true, version = version + 1 WHERE id = %s", held)
    stage.clock.move(61)
    stage.rows(
        "UPDATE bot_pool_slots SET last_used_at = botpool_now(), version = version + 1"
        " WHERE id = %s",
        recent,
    )
    await keep(stage, replica)
    assert {slot["id"] for slot in stage.slots()} == {cordoned, held, recent}


async def test_ttl_of_zero_removes_nothing(stage: Stage) -> None:
    replica = await stage.replica(hot_pool(0, idle=1, idle_ttl_s=0))
    await stage.run_bot(replica)
    await keep(stage, replica)
    stage.clock.move(10 * 86_400)
    slots = len(stage.slots())
    await keep(stage, replica)
    assert len(stage.slots()) == slots


async def test_replicas_prepare_and_remove_no_more_than_the_target(stage: Stage) -> None:
    stage.rows(KNOWN)
    replicas = [
        await stage.replica(hot_pool(0, idle=3, idle_ttl_s=60, max_size=9)) for _ in range(3)
    ]
    for replica in replicas:
        await replica.liveness.check()
    await asyncio.gather(*(replica.standby_keeper.keep() for replica in replicas))
    assert len(stage.slots()) == 3
    await stage.settle(replicas[0])
    stage.rows("UPDATE pools SET warm = warm || '{\"idle\": 1}'")
    stage.clock.move(61)
    for replica in replicas:
        await replica.liveness.check()
    await asyncio.gather(*(replica.standby_keeper.keep() for replica in replicas))
    assert Counter(slot["status"] for slot in stage.slots()) == {"idle": 1, "deleting": 2}


async def test_claim_during_the_preparation_starts_its_bot_in_the_same_container(
    stage: Stage,
) -> None:
    stage.rows(KNOWN)
    replica = await stage.replica(hot_pool(0, idle=1, max_size=1))
    await replica.liveness.check()
    await replica.standby_keeper.keep()
    arrived, proceed = stage.backend.hold("ensure")
    step = asyncio.create_task(stage.step(replica))
    await arrived.wait()
    bot = (await replica.admission.admit(bot_request())).bot.id
    proceed.set()
    await step
    await stage.settle(replica)
    assert stage.statuses(bot) == ["JOINING_CALL"]
    assert len(stage.backend.containers) == 1
    assert len(stage.backend.runs) == 1


@pytest.mark.parametrize("after_the_call", [False, True])
async def test_another_replica_continues_the_preparation(
    stage: Stage, after_the_call: bool
) -> None:
    stage.rows(KNOWN)
    first = await stage.replica(hot_pool(0, idle=1, max_size=1))
    second = await stage.replica(hot_pool(0, idle=1, max_size=1))
    await first.liveness.check()
    await first.standby_keeper.keep()
    arrived, _ = (stage.backend.hold_answer if after_the_call else stage.backend.hold)("ensure")
    step = asyncio.create_task(stage.step(first))
    await arrived.wait()
    for task in first.reconciler.under_way:
        task.cancel()
    await asyncio.gather(step, return_exceptions=True)
    stage.backend.release("ensure")
    stage.clock.move(120)
    await stage.settle(second)
    assert (prepared(stage), len(stage.backend.containers)) == (1, 1)


async def test_backend_failure_postpones_the_preparation(stage: Stage) -> None:
    stage.rows(KNOWN)
    replica = await stage.replica(hot_pool(0, idle=2, max_size=4))
    stage.backend.fail("ensure", BackendUnavailable("down"), BackendRefused("process", "no"))
    await keep(stage, replica)
    assert (prepared(stage), len(stage.slots())) == (0, 2), "no other slot instead"
    stage.clock.move(61)
    await keep(stage, replica)
    assert prepared(stage) == 2


async def test_preparation_waits_while_bots_wait(stage: Stage) -> None:
    stage.rows(KNOWN)
    replica: Replica = await stage.replica(hot_pool(0, idle=1, max_size=2))
    for _ in range(3):
        await replica.admission.admit(bot_request())
    await keep(stage, replica)
    assert len(stage.slots()) == 2
    assert stage.rows("SELECT count(*) AS n FROM bot_pool_queue")[0]["n"] == 1


async def test_operators_see_target_actual_number_and_reason(stage: Stage) -> None:
    stage.rows(KNOWN)
    replica = await stage.replica(hot_pool(2, idle=3))
    await keep(stage, replica)
    starting = [slot for slot in stage.slots() if slot["standby"] == "starting"]
    await StandbyAgent(replica, starting[0]).open(stage)
    (floors,) = (await replica.standby_keeper.floors()).values()
    assert (floors.hot_target, floors.hot_ready, floors.hot_starting) == (2, 1, 1)
    assert (floors.idle_target, floors.idle_ready, floors.reason) == (3, 2, "floor")
    assert floors.problem is None
