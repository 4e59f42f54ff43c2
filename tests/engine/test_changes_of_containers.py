"""A backend announces a change of a container once, and Botpool does not lose the announcement.

The policy's observation is rare here, so only the announcement shows that a container ended.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from botpool.domain.errors import BackendUnavailable
from botpool.domain.ids import BotId
from botpool.domain.observation import ContainerState
from botpool.domain.policy import Policy
from botpool.engine.replica import Replica
from tests.support.replicas import Stage, bot_request, pool

RARE = Policy(observe_interval_s=3600, recovery_interval_s=3600, deploy_attempts=1)
WAIT_S = 60


@asynccontextmanager
async def running_replica(
    stage: Stage, policy: Policy = RARE, **changes: Any
) -> AsyncIterator[Replica]:
    replica = await stage.replica(replace(pool(1), **changes), policy=policy)
    await replica.start()
    try:
        yield replica
    finally:
        await replica.stop()


async def wait_for_start(stage: Stage) -> None:
    async with asyncio.timeout(WAIT_S):
        while not any(slot["start_issued_at"] for slot in stage.slots()):
            await asyncio.sleep(0.02)


async def wait_for_status(stage: Stage, bot: BotId, status: str) -> None:
    async with asyncio.timeout(WAIT_S):
        while stage.statuses(bot) != [status]:
            await asyncio.sleep(0.02)


async def test_container_that_ends_before_its_start_is_recorded(stage: Stage) -> None:
    stage.backend.state_after_start = ContainerState.EXITED
    started, proceed = stage.backend.hold_answer("start")
    async with running_replica(stage) as replica:
        bot = (await replica.admission.admit(bot_request())).bot.id
        await started.wait()
        stage.backend.hint(stage.slots()[0]["container_id"])
        async with asyncio.timeout(WAIT_S):
            while not replica.observer.changed:
                await asyncio.sleep(0.02)
        proceed.set()
        await wait_for_status(stage, bot, "FAILED")


async def test_container_that_exits_before_its_agent_calls_is_retried(stage: Stage) -> None:
    """The backend announces the start, and then the exit, before the agent has called."""
    retrying = replace(RARE, deploy_attempts=2)
    async with running_replica(stage, retrying) as replica:
        bot = (await replica.admission.admit(bot_request())).bot.id
        await wait_for_start(stage)
        container_id = stage.slots()[0]["container_id"]
        assert await replica.observer.observe_change("process", container_id)
        assert stage.statuses(bot) == ["DEPLOYING"]
        stage.backend.show(container_id, ContainerState.EXITED)
        stage.backend.hint(container_id)
        async with asyncio.timeout(WAIT_S):
            while stage.rows("SELECT attempts FROM bots") != [{"attempts": 2}]:
                await asyncio.sleep(0.02)


async def test_announced_start_counts_in_a_pool_without_heartbeats(stage: Stage) -> None:
    async with running_replica(stage, heartbeats="none") as replica:
        bot = (await replica.admission.admit(bot_request())).bot.id
        await wait_for_start(stage)
        stage.backend.hint(stage.slots()[0]["container_id"])
        await wait_for_status(stage, bot, "JOINING_CALL")


async def test_change_is_observed_again_after_an_outage_of_the_backend(stage: Stage) -> None:
    async with running_replica(stage) as replica:
        bot = (await stage.run_bot(replica)).bot.id
        container_id = stage.slots()[0]["container_id"]
        stage.backend.show(container_id, ContainerState.EXITED)
        stage.backend.fail("observe", BackendUnavailable("no answer in time"))
        stage.backend.hint(container_id)
        await wait_for_status(stage, bot, "FAILED")


async def test_change_is_observed_again_if_the_slot_changed_meanwhile(stage: Stage) -> None:
    async with running_replica(stage) as replica:
        bot = (await stage.run_bot(replica)).bot.id
        container_id = stage.slots()[0]["container_id"]
        stage.backend.show(container_id, ContainerState.EXITED)
        observed, proceed = stage.backend.hold_answer("observe")
        stage.backend.hint(container_id)
        await observed.wait()
        stage.rows("UPDATE bot_pool_slots SET version = version + 1 RETURNING id")
        proceed.set()
        await wait_for_status(stage, bot, "FAILED")
