"""The rules of slots without a bot: standbys, their polls and accepts, and foreign starts."""

import asyncio
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule

from botpool.domain.ids import AssignmentId, BotId, ContainerId
from botpool.domain.observation import ContainerState
from botpool.engine.agents.standby_polls import PollAnswer
from botpool.engine.replica import Replica
from tests.model.checked_machine import CheckedMachine
from tests.model.recording_backend import StandbyRun
from tests.support.replicas import MEET, TEAMS

INDEXES = st.integers(0, 3)
BOOTS = st.sampled_from(["boot-1", "boot-1", "boot-1", "boot-2"])


@dataclass(frozen=True, kw_only=True)
class HandedOver:
    """The answer to a poll, which an agent may use at any later time."""

    assignment: AssignmentId
    run: AssignmentId
    bot: BotId
    container: ContainerId


class StandbyMachine(CheckedMachine):
    def __init__(self) -> None:
        super().__init__()
        self.answers: list[HandedOver] = []
        self.accepted: dict[AssignmentId, tuple[AssignmentId, str]] = {}
        """The run and the boot that accepted an assignment."""

    @initialize(hot=st.sampled_from([0, 1, 2]))
    def first_hot_slots(self, hot: int) -> None:
        self.configure_hot_slots(MEET, hot)

    @rule(pool_name=st.sampled_from([MEET, MEET, TEAMS]), hot=st.sampled_from([0, 1, 1, 2]))
    def configure_hot_slots(self, pool_name: Any, hot: int) -> None:
        self.reference.pools[pool_name].hot = hot
        self.do(self.configure, repeat=True)
        self.do(lambda r: r.standby_keeper.keep())
        known = len(self.backend.standbys)
        self.do(None)
        for run in self.backend.standbys[known:]:
            self._poll(run, 0, "boot-1", "waits")

    @precondition(lambda self: self.backend.standbys)
    @rule(
        which=INDEXES,
        replica=INDEXES,
        boot=BOOTS,
        then=st.sampled_from(["accepts", "accepts", "waits", "is lost"]),
    )
    def poll_for_bot(self, which: int, replica: int, boot: str, then: str) -> None:
        """Poll as the agent of a standby, also of one that was stopped long ago."""
        self._poll(
            self.backend.standbys[-1 - which % len(self.backend.standbys)], replica, boot, then
        )

    @precondition(lambda self: self._handed_over())
    @rule(replica=INDEXES, boot=BOOTS, then=st.sampled_from(["accepts", "accepts", "waits"]))
    def poll_with_bot(self, replica: int, boot: str, then: str) -> None:
        """Poll as a standby that has a bot."""
        self._poll(self._handed_over()[0], replica, boot, then)

    def _handed_over(self) -> list[StandbyRun]:
        runs = [s["run_id"] for s in self.snapshot.slots if s["phase"] == "handing_over"]
        return [each for each in self.backend.standbys if each.run_id in runs]

    def _poll(self, run: StandbyRun, replica: int, boot: str, then: str) -> None:
        expected = self._expected_answer(run, boot)
        answer = self.do(
            lambda r: _poll(r, run, boot, then_lost=then == "is lost"), which=replica, repeat=True
        )
        assert (answer.should_exit, answer.handover and answer.handover.bot_id) == expected
        if answer.handover is None:
            return
        bot = answer.handover.bot_id
        assert self.backend.given.setdefault(run.run_id, bot) == bot, "one container, two bots"
        self.answers.append(
            HandedOver(
                assignment=answer.handover.assignment_id,
                run=run.run_id,
                bot=bot,
                container=run.container_id,
            )
        )
        if then == "accepts":
            self.call_accept(self.answers[-1], boot)

    def _expected_answer(self, run: StandbyRun, boot: str) -> tuple[bool, int | None]:
        """Predict whether the agent must exit, and the bot that it gets."""
        slots = [s for s in self.snapshot.slots if s["run_id"] == run.run_id]
        if not slots or slots[0]["standby"] == "stopping":
            return True, None
        (slot,) = slots
        if slot["status"] == "idle":
            return False, None
        if slot["phase"] == "handing_over":
            return False, slot["assigned_bot_id"]
        if slot["status"] == "busy" and self.accepted[slot["assignment_id"]][1] != boot:
            # The boot that accepted the bot has ended.
            self.reference.bots[slot["assigned_bot_id"]].container_ended = True
        return True, None

    @precondition(lambda self: self.answers)
    @rule(which=INDEXES, boot=BOOTS)
    def accept_bot(self, which: int, boot: str) -> None:
        """Accept the bot of an answer: the first boot gets it, and the same boot may repeat it."""
        answer = self.answers[-1 - which % len(self.answers)]
        self.call_accept(answer, boot)

    @precondition(lambda self: any(s["status"] == "idle" for s in self.snapshot.slots))
    @rule(which=INDEXES)
    def start_idle_container(self, which: int) -> None:
        idle = [s["container_id"] for s in self.snapshot.slots if s["status"] == "idle"]
        container = idle[which % len(idle)]
        if container in [s["container_id"] for s in self.snapshot.slots if s["standby"]]:
            return  # The container belongs to a standby.
        if container in self.backend.containers:
            self.backend.started_by_others.add(container)
            self.backend.show(container, ContainerState.RUNNING)

    def call_accept(self, answer: HandedOver, boot: str) -> None:
        slots = [s for s in self.snapshot.slots if s["assignment_id"] == answer.assignment]
        phase = slots[0]["phase"] if slots else None
        is_busy = bool(slots) and slots[0]["status"] == "busy"
        may_join = phase == "handing_over" or (
            is_busy and self.accepted[answer.assignment] == (answer.run, boot)
        )
        if phase == "handing_over":
            self.accepted[answer.assignment] = (answer.run, boot)
            self.record_agent_call(answer.assignment, answer.bot)
        view, must_exit = self.do(
            lambda r: r.agents.accept(answer.assignment, answer.run, answer.container, boot),
            repeat=True,
        )
        assert (view.bot.id, must_exit) == (answer.bot, not may_join)
        run = (answer.assignment, answer.bot, answer.container)
        if may_join and run not in self.backend.started:
            self.backend.started.append(run)


async def _poll(replica: Replica, run: StandbyRun, boot: str, *, then_lost: bool) -> PollAnswer:
    """Poll once; a standby without a bot ends its poll, and Botpool may notice it."""
    polls = replica.standby_polls
    poll = asyncio.create_task(polls.wait(run.slot_id, run.run_id, boot_id=boot, wait_s=60))
    try:
        while not poll.done() and (
            run.slot_id not in polls.polls or polls.polls[run.slot_id].waiter is None
        ):
            await asyncio.sleep(0.001)
        await asyncio.gather(*polls.pushes)
        if not poll.done():
            await polls._read(None)
            await asyncio.sleep(0)
        answer = poll.result() if poll.done() else PollAnswer()
    finally:
        poll.cancel()
        await asyncio.gather(poll, return_exceptions=True)
    if then_lost:
        await polls.close()
    # The next poll may come after another replica's: this one must read the row again.
    polls.polls.clear()
    return answer
