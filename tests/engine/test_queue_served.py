"""The queue is served whenever it can be, also when no release follows."""

import asyncio

import psycopg

from botpool.domain.errors import BackendUnavailable
from botpool.domain.ids import BotId
from botpool.domain.observation import ContainerState
from botpool.domain.policy import Policy
from botpool.domain.states import BotStatus
from botpool.engine.replica import Replica
from tests.support.replicas import MEET, Stage, pool, wish


async def queued(replica: Replica) -> BotId:
    admitted = await replica.admission.admit(wish())
    assert admitted.bot.status is BotStatus.QUEUED
    return admitted.bot.id


async def test_a_release_hands_over_in_its_own_transaction(stage: Stage) -> None:
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


async def test_after_a_failed_deployment_at_its_head(stage: Stage) -> None:
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.state_after_start = ContainerState.ERROR
    first = await replica.admission.admit(wish())
    waiting = await queued(replica)
    await stage.step(replica)
    stage.backend.state_after_start = ContainerState.RUNNING
    await stage.settle(replica)
    assert stage.statuses(first.bot.id, waiting) == ["FAILED", "JOINING_CALL"]


async def test_after_a_slot_comes_back_from_error(stage: Stage) -> None:
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.state_after_start = ContainerState.ERROR
    await replica.admission.admit(wish())
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


async def test_after_a_slot_is_uncordoned(stage: Stage) -> None:
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


async def test_after_a_slot_is_deleted_and_the_pool_may_grow(stage: Stage) -> None:
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


async def test_after_the_maximum_is_raised(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    await stage.run_bot(replica)
    waiting = await queued(replica)
    await replica.pools.configure([pool(2)])
    assert stage.statuses(waiting) == ["DEPLOYING"]


async def test_after_a_drained_pool_is_opened(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    first = await stage.run_bot(replica)
    waiting = await queued(replica)
    await replica.pools.drain(MEET, drained=True, reason="test")
    await stage.end(replica, first.bot.id)
    await stage.settle(replica)
    assert stage.statuses(waiting) == ["QUEUED"]
    await replica.pools.drain(MEET, drained=False, reason="test")
    assert stage.statuses(waiting) == ["DEPLOYING"]


async def test_an_enqueue_that_races_a_release(stage: Stage) -> None:
    """Both want the pool's lock, which somebody else holds: whoever comes second sees the first."""
    replica = await stage.replica(pool(1))
    other = await stage.replica(pool(1))
    first = await stage.run_bot(replica)
    await stage.end(replica, first.bot.id)
    async with await psycopg.AsyncConnection.connect(stage.url) as holder:
        await holder.execute("SELECT pg_advisory_xact_lock(1651471472, hashtext('google-meet'))")
        release = asyncio.create_task(stage.step(replica))
        enqueue = asyncio.create_task(other.admission.admit(wish()))
        while (
            len(stage.rows("SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted"))
            < 2
        ):
            await asyncio.sleep(0.01)
        await holder.rollback()
    _, admitted = await asyncio.gather(release, enqueue)
    assert stage.statuses(admitted.bot.id) == ["DEPLOYING"]
    assert stage.rows("SELECT bot_id FROM bot_pool_queue") == []


async def test_the_poll_serves_what_no_event_told_of(stage: Stage) -> None:
    """As after a crash between a commit and the match that should follow it."""
    replica = await stage.replica(pool(1))
    await stage.run_bot(replica)
    waiting = await queued(replica)
    stage.rows("UPDATE pools SET max_size = 2 RETURNING pool_name")
    await replica.queue_poller.poll()
    assert stage.statuses(waiting) == ["DEPLOYING"]


async def test_the_order_is_priority_then_arrival(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    first = await stage.run_bot(replica)
    late = (await replica.admission.admit(wish(priority=200))).bot.id
    normal = (await replica.admission.admit(wish())).bot.id
    urgent = (await replica.admission.admit(wish(priority=1))).bot.id
    served = []
    current = first.bot.id
    for _ in range(3):
        await stage.end(replica, current)
        await stage.settle(replica)
        current = stage.slots()[0]["assigned_bot_id"]
        served.append(current)
    assert served == [urgent, normal, late]


async def test_a_bot_past_its_deadline_fails_and_is_never_served(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    first = await stage.run_bot(replica)
    waiting = (await replica.admission.admit(wish(queue_timeout_ms=60_000))).bot.id
    stage.clock.move(61)
    await stage.end(replica, first.bot.id)
    await stage.settle(replica)
    assert stage.statuses(waiting) == ["QUEUED"], "served after its deadline"
    await replica.queue_poller.poll()
    bot = stage.bot(waiting)
    assert (bot["status"], bot["failure_code"]) == ("FAILED", "queue_timeout")


async def test_a_deadline_is_kept_to_the_users_own_timeout(stage: Stage) -> None:
    replica = await stage.replica(pool(0))
    short = (await replica.admission.admit(wish(queue_timeout_ms=10_000))).bot.id
    long = (await replica.admission.admit(wish(queue_timeout_ms=600_000))).bot.id
    stage.clock.move(11)
    await replica.queue_poller.poll()
    assert stage.statuses(short, long) == ["FAILED", "QUEUED"]
