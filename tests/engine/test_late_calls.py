"""Calls of a replica that was paused beyond its lease end no bot that started meanwhile."""

import asyncio

from botpool.backends.protocol import ContainerSpec
from botpool.domain.observation import ContainerState
from botpool.domain.policy import Policy
from tests.support.fences import NO_ASSIGNMENT
from tests.support.replicas import Stage, bot_request, pool

PAST_THE_LEASE_S = 21


async def test_late_ensure_of_a_deployment_leaves_its_bot_running(stage: Stage) -> None:
    replica, paused = await stage.replica(pool(1)), await stage.replica(pool(1))
    bot = (await paused.admission.admit(bot_request())).bot.id
    arrived, proceed = stage.backend.hold("ensure")
    deploying = asyncio.create_task(stage.step(paused))
    await arrived.wait()
    stage.clock.move(PAST_THE_LEASE_S)
    await stage.settle(replica)
    assert stage.statuses(bot) == ["JOINING_CALL"]
    proceed.set()
    await deploying
    await replica.observer.observe("process")
    assert stage.statuses(bot) == ["JOINING_CALL"]
    assert stage.backend.running == ["pool-google-meet-001"]


async def test_late_ensure_of_a_reset_leaves_the_next_bot_running(stage: Stage) -> None:
    policy = Policy(deploy_attempts=1)
    replica, paused = [await stage.replica(pool(1), policy=policy) for _ in range(2)]
    stage.backend.state_after_start = ContainerState.ERROR
    await replica.admission.admit(bot_request())
    await stage.step(replica)
    await replica.observer.observe("process")
    await stage.step(replica)
    assert stage.slots()[0]["status"] == "error"
    stage.backend.state_after_start = ContainerState.RUNNING
    arrived, proceed = stage.backend.hold("ensure")
    resetting = asyncio.create_task(stage.step(paused))
    await arrived.wait()
    stage.clock.move(PAST_THE_LEASE_S)
    bot = (await replica.admission.admit(bot_request())).bot.id
    await stage.settle(replica)
    assert stage.statuses(bot) == ["JOINING_CALL"]
    proceed.set()
    await resetting
    await replica.observer.observe("process")
    assert stage.statuses(bot) == ["JOINING_CALL"]
    assert stage.backend.running == ["pool-google-meet-001"]


async def test_late_deletion_of_a_stray_leaves_the_bot_that_adopted_it(stage: Stage) -> None:
    replica, paused = await stage.replica(pool(1)), await stage.replica(pool(1))
    spec = ContainerSpec(name="pool-google-meet-001", pool_name="google-meet", image="demo")
    await stage.backend.ensure(spec, stop_through=NO_ASSIGNMENT, timeout_s=1)
    await paused.cleanup.run()
    stage.clock.move(700)
    arrived, proceed = stage.backend.hold("delete")
    cleaning = asyncio.create_task(paused.cleanup.run())
    await arrived.wait()
    bot = (await stage.run_bot(replica)).bot.id
    proceed.set()
    await cleaning
    await replica.observer.observe("process")
    assert stage.statuses(bot) == ["JOINING_CALL"]
    assert stage.backend.running == ["pool-google-meet-001"]
