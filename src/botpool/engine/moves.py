"""The moves that more than one concern makes, each one committed transaction with its history.

All are fenced by the assignment, and by the slot's version wherever a call to the outside lies
between reading and writing. What happens if the process dies: before the commit the old state
stands and the step is made again; after it, the new state names the next step. Twice: the second
finds neither the version nor the status it needs. Late: the same.
"""

from dataclasses import dataclass

from botpool.domain.decisions import Ending
from botpool.domain.ids import AssignmentId
from botpool.domain.policy import Policy
from botpool.domain.records import LeasedSlot, LookedAt
from botpool.domain.states import SlotStatus, sources_of
from botpool.engine import journal
from botpool.engine.wakeups import Wakeups
from botpool.store.database import Database


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    database: Database
    wakeups: Wakeups
    policy: Policy
    owner: str
    """This replica, as it signs its leases."""

    async def postpone(
        self,
        slot: LeasedSlot,
        *,
        problem: str | None = None,
        stop_issued: bool = False,
        reset_failed: bool = False,
    ) -> None:
        """Give the lease back and try the step again later, ever more slowly."""
        backoff_s = self.policy.step_backoff_s * 2 ** min(slot.step_tries, 10)
        row = await self.database.fetch_one(
            "postpone_step",
            {
                "slot_id": slot.slot_id,
                "assignment_id": slot.assignment_id,
                "version": slot.version,
                "delay_s": min(backoff_s, self.policy.step_backoff_max_s),
                "problem": problem,
                "stop_issued": stop_issued,
                "reset_failed": reset_failed,
            },
        )
        if row is None:
            await self.taken_away(slot, wanted="postpone")

    async def taken_away(self, slot: LeasedSlot, *, wanted: str) -> None:
        """The fence held: the slot moved on. Undo nothing; let its new state be served at once."""
        journal.fence_held(name=slot.slot_name, slot_id=slot.slot_id, wanted=wanted)
        await self.return_lease(slot)
        self.wakeups.slots_due()

    async def return_lease(self, slot: LeasedSlot) -> None:
        await self.database.fetch(
            "return_lease",
            {"slot_id": slot.slot_id, "owner": self.owner, "lease_until": slot.lease_until},
        )

    async def mark_running(
        self,
        assignment_id: AssignmentId,
        *,
        version: int | None,
        reason: str,
        by_agent: bool = False,
    ) -> bool:
        """The container runs: by a look (fenced by its version) or by its agent's own call."""
        row = await self.database.fetch_one(
            "mark_running",
            {
                "assignment_id": assignment_id,
                "version": version,
                "max_duration_s": self.policy.max_duration_s,
                "by_agent": by_agent,
                "reason": reason,
            },
        )
        if row is None:
            return False
        journal.slot_moved(row, old=SlotStatus.DEPLOYING, new=SlotStatus.BUSY, reason=reason)
        return True

    async def fail_deployment(self, slot: LeasedSlot | LookedAt, *, reason: str) -> bool:
        """Give a deployment up. Whether the bot is tried again is decided when it has stopped."""
        row = await self.database.fetch_one(
            "fail_deployment",
            {
                "slot_id": slot.slot_id,
                "assignment_id": slot.assignment_id,
                "version": slot.version,
                "reason": reason,
            },
        )
        if row is None:
            return False
        journal.slot_moved(row, old=SlotStatus.DEPLOYING, new=SlotStatus.RELEASING, reason=reason)
        self.wakeups.slots_due()
        return True

    async def end_bot(
        self,
        assignment_id: AssignmentId,
        ending: Ending,
        *,
        version: int | None = None,
        holds_lease: bool = False,
    ) -> bool:
        """End the bot of an assignment and begin its slot's release. False: nothing was changed.

        `holds_lease`: the caller is the worker of the slot's lease, and gives it back with this.
        """
        row = await self.database.fetch_one(
            "end_bot",
            {
                "assignment_id": assignment_id,
                "version": version,
                "status": ending.status,
                "sources": sorted(sources_of(ending.status)),
                "failure_code": ending.failure_code,
                "failure_reason": ending.reason if ending.failure_code else None,
                "reason": ending.reason,
                "holds_lease": holds_lease,
            },
        )
        if row is None:
            return False
        journal.slot_moved(
            row,
            old=SlotStatus(row["slot_status"]),
            new=SlotStatus.RELEASING,
            reason=ending.reason,
            bot_status=str(ending.status),
        )
        self.wakeups.slots_due()
        return True
