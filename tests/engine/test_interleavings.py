"""Interleavings of replicas, calls and outages, each written step by step."""

import asyncio
import contextlib

import psycopg
import pytest

from botpool.domain.errors import (
    BackendUnavailable,
    ContainerGone,
    DatabaseUnavailable,
    ShuttingDown,
)
from botpool.domain.ids import AssignmentId
from botpool.domain.observation import ContainerState
from botpool.domain.policy import Policy
from botpool.domain.states import BotStatus
from botpool.engine.runtime.loop import Loop
from tests.support.replicas import Stage, bot_request, pool


@pytest.mark.parametrize("call", ["ensure", "start"])
async def test_stop_waits_for_a_call_of_the_same_replica(stage: Stage, call: str) -> None:
    replica = await stage.replica(pool(1))
    bot = (await replica.admission.admit(bot_request())).bot.id
    come, go_on = stage.backend.hold(call)
    deploying = asyncio.create_task(stage.step(replica))
    await come.wait()
    await replica.bot_stopper.stop(bot)
    await replica.reconciler.run_due_steps()
    assert len(replica.reconciler.under_way) == 1, "a second worker took the slot"
    go_on.set()
    await deploying
    waiting = await stage.run_bot(replica)
    assert waiting.bot.status is BotStatus.JOINING_CALL
    assert stage.statuses(bot) == ["CANCELLED"]


async def test_deletion_waits_for_a_reset_in_progress(stage: Stage) -> None:
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.state_after_start = ContainerState.ERROR
    await replica.admission.admit(bot_request())
    await stage.step(replica)
    await replica.observer.observe("process")
    await stage.step(replica)
    assert stage.slots()[0]["status"] == "error"
    come, go_on = stage.backend.hold("ensure")
    resetting = asyncio.create_task(stage.step(replica))
    await come.wait()
    assert await replica.pools.remove(stage.slots()[0]["id"], reason="test")
    await replica.reconciler.run_due_steps()
    go_on.set()
    await resetting
    await stage.settle(replica)
    assert stage.slots() == []
    assert stage.backend.containers == {}, "a container without a slot remains"


async def test_deployment_fails_when_the_container_is_gone_twice(stage: Stage) -> None:
    replica = await stage.replica(pool(1), policy=Policy(deploy_attempts=1))
    stage.backend.fail("start", *[ContainerGone("c")] * 100)
    bot = (await replica.admission.admit(bot_request())).bot.id
    await stage.settle(replica)
    assert stage.bot(bot)["failure_code"] == "deploy_failed"
    assert len(stage.backend.calls_of("start")) == 2


async def test_observation_with_an_older_bot_status_does_not_end_the_bot(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot.id
    assignment = AssignmentId(stage.slots()[0]["assignment_id"])
    await replica.agents.report(assignment, bot, BotStatus.IN_CALL, None)
    stage.backend.show(stage.slots()[0]["container_id"], ContainerState.EXITED)
    come, go_on = stage.backend.hold("observe")
    observing = asyncio.create_task(replica.observer.observe("process"))
    await come.wait()
    assert await replica.agents.report(assignment, bot, BotStatus.CALL_ENDED, None)
    go_on.set()
    await observing
    await replica.observer.observe("process")
    assert stage.statuses(bot) == ["DONE"]


async def test_shutdown_ends_a_bot_that_returns_to_the_queue(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    stage.backend.state_after_start = ContainerState.ERROR
    bot = (await replica.admission.admit(bot_request())).bot.id
    await stage.step(replica)
    await replica.observer.observe("process")
    assert stage.slots()[0]["status"] == "releasing"
    stage.backend.state_after_start = ContainerState.RUNNING
    ending = asyncio.create_task(replica.shutdown.end_all(reason="test"))
    while not ending.done():
        await stage.step(replica)
        await asyncio.sleep(0.01)
    assert stage.statuses(bot) == ["CANCELLED"]
    assert stage.backend.running == []
    with pytest.raises(ShuttingDown):
        await replica.admission.admit(bot_request())


async def test_backend_outage_deletes_no_container(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot.id
    await stage.end(replica, bot)
    stage.backend.fail("stop", *[BackendUnavailable("down")] * 40)
    for _ in range(40):
        await stage.step(replica)
        stage.clock.move(16)
    await stage.settle(replica)
    assert stage.backend.calls_of("delete") == []
    assert stage.slots()[0]["status"] == "idle"


async def test_late_step_does_not_return_the_next_lease(stage: Stage) -> None:
    replica = await stage.replica(pool(1))
    other = await stage.replica(pool(1))
    bot = (await stage.run_bot(replica)).bot.id
    await stage.end(replica, bot)
    come, go_on = stage.backend.hold("stop")
    late = asyncio.create_task(stage.step(replica))
    await come.wait()
    stage.clock.move(21)
    come_again, go_on_again = stage.backend.hold("observe")
    stage.backend.fail("stop")
    await replica.reconciler.run_due_steps()
    await come_again.wait()
    go_on.set()
    await asyncio.sleep(0.2)
    assert await stage.step(other) == 0, "another replica took the lease of a call in progress"
    go_on_again.set()
    await late
    await stage.settle(replica)
    assert stage.slots()[0]["status"] == "idle"


async def test_lowered_maximum_holds_when_bots_end_later(stage: Stage) -> None:
    replica = await stage.replica(pool(2))
    bots = [(await stage.run_bot(replica)).bot.id for _ in range(2)]
    await replica.pools.configure([pool(1)])
    assert len(stage.slots()) == 2
    for bot in bots:
        await stage.end(replica, bot)
    await stage.settle(replica)
    assert len(stage.slots()) == 1


async def test_pool_grows_while_an_admission_claims_a_slot(stage: Stage) -> None:
    replica = await stage.replica(pool(2))
    first = await stage.run_bot(replica)
    await stage.end(replica, first.bot.id)
    await stage.settle(replica)
    async with await psycopg.AsyncConnection.connect(stage.url) as claiming:
        await claiming.execute("SELECT id FROM bot_pool_slots FOR UPDATE")
        admitted = await replica.admission.admit(bot_request(queue_timeout_ms=0))
        await claiming.rollback()
    assert admitted.bot.slot_name == "pool-google-meet-002"


async def test_loop_retries_soon_after_a_failure() -> None:
    rounds = 0
    enough = asyncio.Event()

    async def work() -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 1:
            raise DatabaseUnavailable("down")
        enough.set()

    loop = Loop("test", work, interval_s=3600)
    loop.start()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(30):
            await enough.wait()
    await loop.stop()
    assert enough.is_set()
