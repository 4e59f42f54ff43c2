"""The queue is served after every change that creates room."""

import asyncio

import psycopg

from botpool.domain.errors import BackendUnavailable
from botpool.domain.ids import BotId
from botpool.domain.observation import ContainerState
from botpool.domain.policy import Policy
from botpool.domain.states import BotStatus
from botpool.engine.replica import Replica
from tests.support.replicas import MEET, Stage, bot_request, pool


async def queued(replica: Replica) -> BotId:
    admitted = await replica.admission.admit(bot_request())
    assert admitted.bot.status is BotStatus.QUEUED
    return admitted.bot.id


async def test_released_slot_goes_to_the_next_queued_bot_in_one_transaction(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    first = await stage.run_bot(replica)
    waiting = await queued(replica)
    await stage.end(replica, first.bot.id)
    await stage.step(replica)
    assert stage.statuses(waiting) == ["DEPLOYING"]
    freed, assigned = stage.rows(
        "SELECT xid FROM history WHERE kind = 'slot.status' AND to_state IN ('idle', 'deploying') "
        "ORDER BY id DESC LIMIT 2"
    )
    assert freed == assigned, "freed and handed over in two transactions"


async def test_queue_is_served_after_a_failed_deployment(stage: Stage) -> None:
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.state_after_start = ContainerState.ERROR
    first = await replica.admission.admit(bot_request())
    waiting = await queued(replica)
    await stage.step(replica)
    stage.backend.state_after_start = ContainerState.RUNNING
    await stage.settle(replica)
    assert stage.statuses(first.bot.id, waiting) == ["FAILED", "JOINING_CALL"]


async def test_queue_is_served_after_a_reset(stage: Stage) -> None:
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.state_after_start = ContainerState.ERROR
    await replica.admission.admit(bot_request())
    await stage.step(replica)
    await replica.observer.observe("process")
    stage.backend.state_after_start = ContainerState.RUNNING
    stage.backend.fail("ensure", BackendUnavailable("down"))
    await stage.step(replica)
    await stage.step(replica)
    assert stage.slots()[0]["status"] == "error"
    waiting = await queued(replica)
    stage.clock.move(16)
    await stage.step(replica)
    assert stage.statuses(waiting) == ["DEPLOYING"]


async def test_queue_is_served_after_an_uncordon(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    first = await stage.run_bot(replica)
    slot_id = stage.slots()[0]["id"]
    await replica.pools.cordon(slot_id, cordoned=True, reason="test")
    await stage.end(replica, first.bot.id)
    await stage.settle(replica)
    waiting = await queued(replica)
    await stage.settle(replica)
    assert stage.statuses(waiting) == ["QUEUED"], "a cordoned slot took another bot"
    await replica.pools.cordon(slot_id, cordoned=False, reason="test")
    assert stage.statuses(waiting) == ["DEPLOYING"]


async def test_queue_is_served_after_a_slot_is_deleted(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    first = await stage.run_bot(replica)
    slot_id = stage.slots()[0]["id"]
    await replica.pools.cordon(slot_id, cordoned=True, reason="test")
    await stage.end(replica, first.bot.id)
    await stage.settle(replica)
    waiting = await queued(replica)
    assert await replica.pools.remove(slot_id, reason="test")
    await stage.step(replica)
    assert stage.statuses(waiting) == ["DEPLOYING"]
    assert stage.slots()[0]["id"] != slot_id
    assert stage.slots()[0]["number"] == 1


async def test_queue_is_served_after_the_maximum_is_raised(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    await stage.run_bot(replica)
    waiting = await queued(replica)
    await replica.pools.configure([pool(2)])
    assert stage.statuses(waiting) == ["DEPLOYING"]


async def test_queue_is_served_after_a_drain_ends(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    first = await stage.run_bot(replica)
    waiting = await queued(replica)
    await replica.pools.drain(MEET, drained=True, reason="test")
    await stage.end(replica, first.bot.id)
    await stage.settle(replica)
    assert stage.statuses(waiting) == ["QUEUED"]
    await replica.pools.drain(MEET, drained=False, reason="test")
    assert stage.statuses(waiting) == ["DEPLOYING"]


async def test_enqueue_during_a_release_leaves_no_bot_waiting(stage: Stage) -> None:
    """Both wait for the pool's lock; the second transaction reads the first one's commit."""
    replica = await stage.replica(pool(1))
    other = await stage.replica(pool(1))
    first = await stage.run_bot(replica)
    await stage.end(replica, first.bot.id)
    async with await psycopg.AsyncConnection.connect(stage.url) as holder:
        await holder.execute("SELECT pg_advisory_xact_lock(1651471472, hashtext('google-meet'))")
        release = asyncio.create_task(stage.step(replica))
        enqueue = asyncio.create_task(other.admission.admit(bot_request()))
        while (
            len(stage.rows("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"))
            < 2
        ):
            await asyncio.sleep(0.01)
        await holder.rollback()
    _, admitted = await asyncio.gather(release, enqueue)
    assert stage.statuses(admitted.bot.id) == ["DEPLOYING"]
    assert stage.rows("SELECT bot_id FROM bot_pool_queue") == []


async def test_poll_serves_the_queue_after_a_missed_wakeup(stage: Stage) -> None:
    """A crash happened between a commit and the match that follows it."""
    replica = await stage.replica(pool(1))
    await stage.run_bot(replica)
    waiting = await queued(replica)
    stage.rows("UPDATE pools SET max_size = 2 RETURNING pool_name")
    await replica.queue_poller.poll()
    assert stage.statuses(waiting) == ["DEPLOYING"]


async def test_queue_is_ordered_by_priority_then_arrival(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    first = await stage.run_bot(replica)
    late = (await replica.admission.admit(bot_request(priority=200))).bot.id
    normal = (await replica.admission.admit(bot_request())).bot.id
    urgent = (await replica.admission.admit(bot_request(priority=1))).bot.id
    served = []
    current = first.bot.id
    for _ in range(3):
        await stage.end(replica, current)
        await stage.settle(replica)
        current = stage.slots()[0]["assigned_bot_id"]
        served.append(current)
    assert served == [urgent, normal, late]


async def test_bot_past_its_queue_deadline_fails(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    first = await stage.run_bot(replica)
    waiting = (await replica.admission.admit(bot_request(queue_timeout_ms=60_000))).bot.id
    stage.clock.move(61)
    await stage.end(replica, first.bot.id)
    await stage.settle(replica)
    assert stage.statuses(waiting) == ["QUEUED"], "served after its deadline"
    await replica.queue_poller.poll()
    bot = stage.bot(waiting)
    assert (bot["status"], bot["failure_code"]) == ("FAILED", "queue_timeout")


async def test_queue_deadline_follows_the_timeout_of_the_user(stage: Stage) -> None:
    replica = await stage.replica(pool(0))
    short = (await replica.admission.admit(bot_request(queue_timeout_ms=10_000))).bot.id
    long = (await replica.admission.admit(bot_request(queue_timeout_ms=600_000))).bot.id
    stage.clock.move(11)
    await replica.queue_poller.poll()
    assert stage.statuses(short, long) == ["FAILED", "QUEUED"]
