"""The open polls of standbys, and the answers with their bots.

The open poll proves that the container is ready. A replica records in the slot's row that it holds
the poll, when the first poll arrives or when the poll comes from another replica, not at every
poll. A claim names the owner of the poll, and the push (`handover_push.py`) tells the owner; a read
of the own hand-overs twice a second repairs a push that was lost with the claiming replica.

An answer may be lost: until a boot has accepted the bot, a repeated poll gets the same answer.
After a replica's crash the agents poll another one, which finds the hand-over in the row.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from botpool.domain import reasons
from botpool.domain.agent_views import Handover
from botpool.domain.bot_ending import ending_after_exit
from botpool.domain.communication import Outcome
from botpool.domain.errors import DatabaseUnavailable
from botpool.domain.ids import AssignmentId, SlotId
from botpool.domain.states import SlotPhase, SlotStatus, Standby
from botpool.engine.lifecycle.bot_endings import BotEndings
from botpool.engine.lifecycle.container_environment import ContainerEnvironment
from botpool.engine.lifecycle.image_gate import ImageGate
from botpool.engine.lifecycle.standby_keeper import ALIVE_S, LOST_POLL_S
from botpool.engine.runtime.clock import loop_time
from botpool.engine.service import Service
from botpool.store.standbys import (
    PolledSlot,
    close_polls,
    list_handovers,
    open_poll,
    renew_polls,
)

_log = structlog.get_logger()
LISTENING_READ_S = 0.5
"""How often the replica reads the hand-overs to its polls, in case a push was lost."""
READ_S = 0.1
"""The same without LISTEN."""
_LOST_AFTER_S = 5.0
"""How long after the last poll a standby counts as ready."""
_NEXT_POLL_S = 1.0
"""A later poll may follow one at another replica, so the replica reads the row again."""
_FRESH_SHARE = 1 / 24


@dataclass(frozen=True, slots=True, kw_only=True)
class PollAnswer:
    """The answer to a poll: a bot, the instruction to exit, or neither (poll again)."""

    handover: Handover | None = None
    token: str = field(default="", repr=False)
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    should_exit: bool = False


_POLL_AGAIN = PollAnswer()
_EXIT = PollAnswer(should_exit=True)


@dataclass(slots=True)
class _Poll:
    """The poll of one standby at this replica."""

    run_id: AssignmentId
    waiter: asyncio.Future[PollAnswer] | None = None
    last_at: float = 0.0
    """When the last poll ended, by the event loop's clock."""

    def continues(self, run_id: AssignmentId) -> bool:
        """Whether a poll of this run follows the last one at once, so that nothing changed."""
        is_next = self.waiter is None and loop_time() - self.last_at < _NEXT_POLL_S
        return self.run_id == run_id and is_next


@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyPolls(Service):
    """Answers the polls of standbys."""

    owner: str
    environment: ContainerEnvironment
    bot_endings: BotEndings
    image_gate: ImageGate
    polls: dict[SlotId, _Poll] = field(default_factory=dict)
    pushes: set[asyncio.Task[None]] = field(default_factory=set)
    last_read: list[float] = field(default_factory=lambda: [0.0])
    last_renewal: list[float] = field(default_factory=lambda: [0.0])

    async def wait(
        self, slot_id: SlotId, run_id: AssignmentId, *, boot_id: str | None, wait_s: float
    ) -> PollAnswer:
        """Wait for the bot of a standby, for at most `wait_s`."""
        poll = self.polls.get(slot_id)
        if poll is None or not poll.continues(run_id):
            slot = await open_poll(
                self.database,
                slot_id=slot_id,
                run_id=run_id,
                owner=self.owner,
                image_fresh_s=self.policy.image_known_s * _FRESH_SHARE,
            )
            answer = await self._answer_at_once(slot, boot_id)
            if answer is not None:
                return answer
            if (former := self.polls.get(slot_id)) is not None:
                _resolve(former, _POLL_AGAIN)  # Its agent has gone.
            poll = self.polls[slot_id] = _Poll(run_id)
            # A claim may name this replica since the statement: its push did not find this poll.
            self.pushed([slot_id])
        return await self._wait(slot_id, poll, wait_s)

    def pushed(self, slot_ids: Sequence[SlotId]) -> None:
        """Answer polls of this replica whose standbys have a bot now."""
        known = [slot_id for slot_id in slot_ids if slot_id in self.polls]
        if known:
            task = asyncio.create_task(self._read(known))
            self.pushes.add(task)
            task.add_done_callback(self.pushes.discard)

    def answer(self, handovers: Sequence[Handover]) -> None:
        """Answer polls of this replica with their bots."""
        for handover in handovers:
            poll = self.polls.get(handover.slot_id)
            if poll is not None and poll.run_id == handover.run_id and poll.waiter is not None:
                # Without the entry, the next poll asks the database: it may be a repetition.
                del self.polls[handover.slot_id]
                _resolve(poll, self._answer_of(handover))

    async def answer_and_close(self) -> bool:
        """Read the hand-overs to the own polls, and record polls that ended; False without any."""
        interval_s = LISTENING_READ_S if self.wakeups.listening else READ_S
        now = loop_time()
        if not self.polls or now - self.last_read[0] < interval_s:
            return bool(self.polls)
        self.last_read[0] = now
        await self._read(None)
        await self._renew(now)
        lost = {
            slot_id: poll
            for slot_id, poll in self.polls.items()
            if poll.waiter is None and now - poll.last_at > _LOST_AFTER_S
        }
        await self._close(lost)
        return True

    async def close(self) -> None:
        """End all polls, because this replica stops: the agents poll another one."""
        for poll in self.polls.values():
            _resolve(poll, _POLL_AGAIN)
        await self._close(dict(self.polls))

    async def _wait(self, slot_id: SlotId, poll: _Poll, wait_s: float) -> PollAnswer:
        waiter: asyncio.Future[PollAnswer] = asyncio.get_running_loop().create_future()
        poll.waiter = waiter
        try:
            async with asyncio.timeout(wait_s):
                return await waiter
        except TimeoutError:
            return _POLL_AGAIN
        finally:
            if poll.waiter is waiter:
                poll.waiter, poll.last_at = None, loop_time()

    async def _answer_at_once(
        self, slot: PolledSlot | None, boot_id: str | None
    ) -> PollAnswer | None:
        """Answer a poll that has nothing to wait for; None for a standby that waits."""
        if slot is None or slot.standby in (Standby.STOPPING, Standby.PULLING):
            return _EXIT
        if slot.others_wait and slot.standby is Standby.STARTING:
            await self.image_gate.open(slot.backend)
        if slot.status is SlotStatus.BUSY:
            await self._end_restarted(slot, boot_id)
            return _EXIT
        is_waiting = slot.status is SlotStatus.IDLE or slot.phase is SlotPhase.HANDING_OVER
        return None if is_waiting and slot.standby is not None else _EXIT

    async def _end_restarted(self, slot: PolledSlot, boot_id: str | None) -> None:
        """End a bot whose container polls again after the accept: it was restarted.

        A late poll of the boot that accepted the bot proves nothing.
        """
        if boot_id is not None and boot_id == slot.boot_id:
            return
        assert slot.assignment_id is not None
        assert slot.bot_status is not None
        ending = ending_after_exit(
            slot.bot_status,
            asked_to_leave=slot.leave_by is not None,
            finishing=slot.finishing_at is not None,
            outcome=Outcome.REPORT,
            exit_code=None,
            detail=reasons.SECOND_BOOT,
        )
        await self.bot_endings.end(slot.assignment_id, ending)

    async def _read(self, slot_ids: Sequence[SlotId] | None) -> None:
        """Read hand-overs from the database and answer their polls."""
        try:
            found = await list_handovers(self.database, owner=self.owner, slot_ids=slot_ids)
        except DatabaseUnavailable as error:
            _log.warning("handover.not_read", problem=error.detail)
            return
        self.answer(found)

    async def _renew(self, now: float) -> None:
        """Record open polls again that another replica cleared, because this one seemed dead."""
        if now - self.last_renewal[0] < _LOST_AFTER_S:
            return
        self.last_renewal[0] = now
        open_polls = {each: poll for each, poll in self.polls.items() if poll.waiter is not None}
        await renew_polls(
            self.database,
            owner=self.owner,
            slot_ids=list(open_polls),
            run_ids=[poll.run_id for poll in open_polls.values()],
        )

    def _answer_of(self, handover: Handover) -> PollAnswer:
        return PollAnswer(
            handover=handover,
            token=self.environment.token_of(handover),
            environment=self.environment.of_handover(handover),
        )

    async def _close(self, polls: Mapping[SlotId, _Poll]) -> None:
        if not polls:
            return
        for slot_id in polls:
            del self.polls[slot_id]
        await close_polls(
            self.database,
            owner=self.owner,
            slot_ids=list(polls),
            run_ids=[poll.run_id for poll in polls.values()],
            alive_s=ALIVE_S,
            lost_s=LOST_POLL_S,
        )


def _resolve(poll: _Poll, answer: PollAnswer) -> None:
    if poll.waiter is not None and not poll.waiter.done():
        poll.waiter.set_result(answer)
