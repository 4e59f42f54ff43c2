"""Rollouts on a stage: start them, send bots through them, and see what each bot ran."""

import asyncio
from dataclasses import dataclass
from typing import Any, Self

from botpool.domain.ids import AssignmentId, BotId
from botpool.domain.pools import PoolSpec
from botpool.domain.rollouts.records import Rollout, RolloutRequest, RolloutState
from botpool.domain.states import BotStatus
from botpool.engine.replica import Replica
from tests.support.replicas import MEET, Stage, bot_request

OLD, NEW = "bot:1", "bot:2"
LEASE_S = 120
"""Longer than the lease of a killed replica."""


def request(image: str = NEW, **changes: Any) -> RolloutRequest:
    values = {"share": 0.5, "bake_s": 600.0, "tolerance": 0.1} | changes
    return RolloutRequest(image=image, **values)


@dataclass
class Canary:
    """A stage with a rollout in one pool. `replica` may be exchanged at any time."""

    stage: Stage
    replica: Replica
    spec: PoolSpec

    @classmethod
    async def set(cls, stage: Stage, spec: PoolSpec) -> Self:
        return cls(stage, await stage.replica(spec), spec)

    async def start(self, image: str = NEW, **changes: Any) -> None:
        """Start a rollout and pull its image."""
        await self.replica.rollouts.start(MEET, request(image, **changes))
        await self.step()

    async def step(self, seconds: float = 5.0) -> None:
        """Let a rollout's next step become due and take it, with all that follows from it."""
        self.stage.clock.move(seconds)
        await self.replica.rollout_controller.run()
        await self.stage.settle(self.replica)

    async def rollout(self) -> Rollout:
        return (await self.replica.rollouts.list(MEET))[0]

    async def state(self) -> RolloutState:
        return (await self.rollout()).state

    async def admit(self, bots: int) -> list[BotId]:
        """Admit bots; their containers start as the backend's script says."""
        admitted = [(await self.replica.admission.admit(bot_request())).bot.id for _ in range(bots)]
        await self.stage.settle(self.replica)
        return admitted

    async def meet(self, bots: int) -> list[BotId]:
        """Send bots through their meetings, as many at a time as the pool has slots."""
        admitted = await self.admit(bots)
        await self.attend(*admitted)
        return admitted

    async def attend(self, *bots: BotId) -> None:
        """Join the call and leave it, with the bots whose container runs."""
        joining = self.stage.rows(
            "SELECT id, assignment_id FROM bots WHERE id = ANY(%s) AND status = 'JOINING_CALL'",
            list(bots),
        )
        for row in joining:
            for status in (BotStatus.IN_CALL, BotStatus.DONE):
                assignment = AssignmentId(row["assignment_id"])
                assert await self.replica.agents.report(assignment, row["id"], status, None)
        await self.stage.settle(self.replica)

    async def kill_during(self, call: str, *, answer: bool = False) -> None:
        """Kill the replica in its next call to the backend, and continue with another one."""
        backend = self.stage.backend
        hold = backend.hold_answer if answer else backend.hold
        arrived, _ = hold(call)
        work = asyncio.create_task(self.stage.settle(self.replica))
        await asyncio.wait_for(arrived.wait(), 30)
        tasks = [*self.replica.reconciler.under_way, work]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.stage.clock.move(LEASE_S)
        self.replica = await self.stage.replica(self.spec)
        await self.stage.settle(self.replica)

    def image_of(self, bot: BotId) -> str:
        """Return the image of a bot that has a slot."""
        return str(self.stage.slot_of(bot)["image"])

    def first_images(self) -> list[str]:
        """Return the image of each bot's first assignment, in their order."""
        rows = self.stage.rows(
            "SELECT coalesce(v.image, %s) AS image FROM assignments a"
            " LEFT JOIN rollout_runs u ON u.run_id = coalesce(a.run_id, a.id)"
            " LEFT JOIN revisions v ON v.id = u.revision_id"
            " WHERE a.attempt = 1 ORDER BY a.id",
            OLD,
        )
        return [row["image"] for row in rows]

    def pool_image(self) -> str:
        (row,) = self.stage.rows("SELECT image FROM pools WHERE pool_name = %s", MEET)
        return str(row["image"])
