"""The agent of a standby in a schedule: it polls for a bot, and accepts it before it joins."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from botpool.domain.errors import DatabaseUnavailable
from botpool.domain.ids import AssignmentId, BotId
from botpool.engine.agents.standby_polls import PollAnswer
from botpool.engine.replica import Replica
from tests.schedules.installation import Installation, Unreachable
from tests.schedules.simulated_backend import Run
from tests.schedules.turn_scheduler import TurnScheduler

T = TypeVar("T")
_POLL_S = (0.0, 5.0)
_BEHAVIOURS = (
    *["good"] * 5,
    "slow",
    "slow",
    "slow",
    "loses answer",
    "silent",
    "repeats",
    "impatient",
)
"""An agent that `loses answer` polls again, a `silent` one never polls, one that `repeats` accepts
twice, and an `impatient` one ends its poll early."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyAgent:
    """The process in the container of a standby, from its boot to its bot."""

    scheduler: TurnScheduler
    installation: Installation
    retry: Callable[[Callable[[Replica], Awaitable[Any]]], Awaitable[Any]]
    violations: list[str]
    run: Run
    boot_id: str

    async def wait_for_bot(self) -> tuple[AssignmentId, BotId] | None:
        """Return the bot that this boot accepted; None if the agent must exit."""
        behaviour = self.scheduler.rng.choice(_BEHAVIOURS)
        if behaviour == "silent":
            await asyncio.sleep(3600)
        while True:
            answer = await self._poll(impatient=behaviour == "impatient")
            if answer is None or answer.should_exit:
                return None
            if answer.handover is None:
                continue
            self._know(answer.handover.bot_id)
            if behaviour == "loses answer":
                behaviour = "good"
                continue
            if behaviour == "slow":
                await asyncio.sleep(self.scheduler.rng.uniform(1.0, 8.0))
            return await self._accept(answer, twice=behaviour == "repeats")

    async def _poll(self, *, impatient: bool) -> PollAnswer | None:
        run, wait_s = self.run, self.scheduler.rng.uniform(*_POLL_S)
        assert run.slot_id is not None
        slot_id = run.slot_id
        poll = self.installation.send(
            lambda r: r.standby_polls.wait(
                slot_id, run.assignment_id, boot_id=self.boot_id, wait_s=wait_s
            ),
            ends_with_caller=self.scheduler.rng.random() < 0.7,
        )
        try:
            async with asyncio.timeout(self.scheduler.rng.uniform(0.0, 2.0) if impatient else None):
                return await poll
        except TimeoutError:
            return PollAnswer()
        except (Unreachable, DatabaseUnavailable):
            await asyncio.sleep(self.scheduler.rng.uniform(0.1, 2.0))
            return PollAnswer()

    def _know(self, bot_id: BotId) -> None:
        """The container knows this bot from now on, and must never get another."""
        if self.run.bot_id not in (None, bot_id):
            self.violations.append(
                f"{self.scheduler.now:.3f} run {self.run.assignment_id} got bot {self.run.bot_id}"
                f" and bot {bot_id}"
            )
        self.run.bot_id = bot_id

    async def _accept(
        self, answer: PollAnswer, *, twice: bool
    ) -> tuple[AssignmentId, BotId] | None:
        assert answer.handover is not None
        assignment, run = answer.handover.assignment_id, self.run
        for _ in range(2 if twice else 1):
            _, must_exit = await self.retry(
                lambda r: r.agents.accept(
                    assignment, run.assignment_id, run.container_id, self.boot_id
                )
            )
        return None if must_exit else (assignment, answer.handover.bot_id)
