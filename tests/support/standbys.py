"""Standbys on a stage: start them, poll as their agents, and accept bots."""

import asyncio
from typing import Any

from botpool.domain.ids import AssignmentId, ContainerId, SlotId
from botpool.domain.pools import PoolSpec
from botpool.domain.tokens import assignment_of, run_of
from botpool.domain.warm import Warm
from botpool.engine.agents.standby_polls import PollAnswer
from botpool.engine.replica import Replica
from tests.support.replicas import Stage, pool


def hot_pool(hot: int, max_size: int = 5, **warm: Any) -> PoolSpec:
    return pool(max_size, warm=Warm(hot=hot, **warm))


async def keep(stage: Stage, replica: Replica) -> None:
    """Let the keeper and the reconciler of a live replica work until nothing is due."""
    await replica.liveness.check()
    await replica.standby_keeper.keep()
    await stage.settle(replica)


class StandbyAgent:
    """The agent of one start of a standby's container."""

    def __init__(self, replica: Replica, slot: dict[str, Any], boot: str = "boot-1") -> None:
        self.replica = replica
        self.slot_id = SlotId(slot["id"])
        self.run_id = AssignmentId(slot["run_id"])
        self.container_id = ContainerId(slot["container_id"])
        self.boot = boot
        self.poll: asyncio.Task[PollAnswer] | None = None

    async def open(self, stage: Stage) -> None:
        """Open a poll and wait until the replica holds it."""
        wait = self.replica.standby_polls.wait(
            self.slot_id, self.run_id, boot_id=self.boot, wait_s=60
        )
        self.poll = asyncio.create_task(wait)
        polls = self.replica.standby_polls.polls
        while not self.poll.done() and (
            self.slot_id not in polls or polls[self.slot_id].waiter is None
        ):
            await asyncio.sleep(0.002)

    async def answer(self) -> PollAnswer:
        assert self.poll is not None
        return await asyncio.wait_for(asyncio.shield(self.poll), 20)

    async def accept(self, answer: PollAnswer, boot: str | None = None) -> bool:
        """Accept the bot of an answer; returns whether the agent must exit."""
        assignment = assignment_of(answer.token, self.replica.identity.agent_keys)
        run_id = run_of(answer.token)
        assert assignment is not None and run_id is not None
        _, must_exit = await self.replica.agents.accept(
            assignment, run_id, self.container_id, boot or self.boot
        )
        return must_exit


async def ready_standby(stage: Stage, replica: Replica) -> StandbyAgent:
    """Start a standby and open its poll."""
    await keep(stage, replica)
    (slot,) = [each for each in stage.slots() if each["standby"] == "starting"]
    agent = StandbyAgent(replica, slot)
    await agent.open(stage)
    return agent
