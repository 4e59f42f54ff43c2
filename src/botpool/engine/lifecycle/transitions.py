"""The moves that more than one concern makes, each one committed transaction with its history.

All are fenced by the assignment, and by the slot's version wherever a call to the outside lies
between reading and writing. What happens if the process dies: before the commit the old state
stands and the step is made again; after it, the new state names the next step. Twice: the second
finds neither the version nor the status it needs. Late: the same.
"""

from dataclasses import dataclass
from datetime import datetime

from botpool.backends.protocol import ContainerSpec
from botpool.domain.bot_ending import BotEnding
from botpool.domain.errors import BackendError, BudgetExhausted
from botpool.domain.ids import AssignmentId, BotId
from botpool.domain.policy import Policy
from botpool.domain.records import LeasedSlot, ObservedSlot, StuckSlot
from botpool.domain.states import BotStatus, SlotPhase, SlotStatus
from botpool.engine.lifecycle.bot_endings import BotEndings
from botpool.engine.lifecycle.image_gate import ImageGate
from botpool.engine.observability import event_log
from botpool.engine.observability.metrics import Metrics
from botpool.engine.runtime.wakeups import Wakeups
from botpool.store.database import Database
from botpool.store.rows import to_slot_change

_FRESH = 1 / 24
"""An image's last start is written anew after that part of its time: not at every start."""


def spec_of(slot: LeasedSlot) -> ContainerSpec:
    """The container that a slot wants to have, as its pool is now."""
    return ContainerSpec(
        name=slot.slot_name,
        pool_name=slot.pool_name,
        image=slot.image,
        cpus=slot.cpus,
        memory_mb=slot.memory_mb,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Transitions:
    database: Database
    wakeups: Wakeups
    policy: Policy
    image_gate: ImageGate
    bot_endings: BotEndings
    metrics: Metrics
    owner: str
    """This replica, as it signs its leases."""

    async def postpone(
        self,
        slot: LeasedSlot,
        *,
        after: BackendError | None = None,
        delay_s: float | None = None,
        problem: str | None = None,
        stop_issued: bool = False,
        stop_unreliable: bool = False,
        delete_issued: bool = False,
    ) -> None:
        """Give the lease back and try the step again later, ever more slowly.

        `after` is what the backend said: one that named a time is asked then, and not before.
        """
        if delay_s is None:
            backoff_s = self.policy.step_backoff_s * 2 ** min(slot.step_attempts, 10)
            delay_s = min(backoff_s, self.policy.step_backoff_max_s)
        if isinstance(after, BudgetExhausted):
            delay_s = max(after.retry_after_s, delay_s)
        row = await self.database.fetch_one(
            "postpone_step",
            {
                "slot_id": slot.slot_id,
                "assignment_id": slot.assignment_id,
                "version": slot.version,
                "delay_s": delay_s,
                "problem": problem,
                "stop_issued": stop_issued,
                "stop_unreliable": stop_unreliable,
                "delete_issued": delete_issued,
            },
        )
        if row is None:
            await self.abandon_step(slot, wanted="postpone")

    async def abandon_step(self, slot: LeasedSlot, *, wanted: str) -> None:
        """The fence held: the slot moved on. Undo nothing; let its new state be served at once."""
        event_log.write_fenced(name=slot.slot_name, slot_id=slot.slot_id, wanted=wanted)
        self.metrics.fenced(wanted)
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
                "image_fresh_s": self.policy.image_known_s * _FRESH,
                "by_agent": by_agent,
                "reason": reason,
            },
        )
        if row is None:
            return False
        event_log.slot_transition(
            to_slot_change(row), old=SlotStatus.DEPLOYING, new=SlotStatus.BUSY, reason=reason
        )
        pool = row["pool_name"]
        self.metrics.running(pool, warm=row["warm"], after_s=row["deploying_s"])
        if row["starting_s"] is not None:
            self.metrics.phase_passed(pool, SlotPhase.STARTING, after_s=row["starting_s"])
        if row["others_wait"]:
            await self.image_gate.open(row["backend"])
        return True

    async def end_deployment(self, slot: ObservedSlot) -> int | None:
        """A start's deployment has finished; the slot's new version. None: it moved on."""
        row = await self.database.fetch_one(
            "end_deployment",
            {
                "slot_id": slot.slot_id,
                "assignment_id": slot.assignment_id,
                "version": slot.version,
            },
        )
        if row is None:
            return None
        await self.image_gate.open(row["backend"])
        return int(row["version"])

    async def clear_stop(self, slot: ObservedSlot, *, patience_s: float) -> None:
        """A stop that a deployment may undo does not count: it is sent again."""
        await self.database.fetch(
            "clear_stop",
            {
                "slot_id": slot.slot_id,
                "assignment_id": slot.assignment_id,
                "version": slot.version,
                "patience_s": patience_s,
            },
        )
        self.wakeups.slots_due()

    async def fail_deployment(
        self,
        slot: LeasedSlot | ObservedSlot | StuckSlot,
        *,
        reason: str,
        deployment_over: bool = False,
        nothing_started: bool = False,
    ) -> bool:
        """Give a deployment up. Whether the bot is tried again is decided when it has stopped.

        `nothing_started`: it is certain that there is nothing to stop.
        """
        row = await self.database.fetch_one(
            "fail_deployment",
            {
                "slot_id": slot.slot_id,
                "assignment_id": slot.assignment_id,
                "version": slot.version,
                "deployment_over": deployment_over,
                "nothing_started": nothing_started,
                "reason": reason,
            },
        )
        if row is None:
            return False
        event_log.slot_transition(
            to_slot_change(row), old=SlotStatus.DEPLOYING, new=SlotStatus.RELEASING, reason=reason
        )
        if row["others_wait"]:
            await self.image_gate.open(row["backend"])
        self.wakeups.slots_due()
        return True

    async def end_bot(
        self,
        assignment_id: AssignmentId,
        ending: BotEnding,
        *,
        version: int | None = None,
        holds_lease: bool = False,
        silent_since: datetime | None = None,
    ) -> bool:
        """End the bot of an assignment and begin its slot's release. False: nothing was changed.

        `holds_lease`: the caller is the worker of the slot's lease, and gives it back with this.
        `silent_since`: it ends for its silence, unless a heartbeat came at that time or later.
        """
        return await self.bot_endings.end(
            assignment_id,
            ending,
            version=version,
            holds_lease=holds_lease,
            silent_since=silent_since,
        )

    async def mark_deleting(
        self, slot: LeasedSlot | StuckSlot, *, reason: str, holds_lease: bool = False
    ) -> bool:
        """Take a slot in `error` down, with its container. False: it moved on."""
        row = await self.database.fetch_one(
            "mark_slot_deleting",
            {
                "slot_id": slot.slot_id,
                "version": slot.version,
                "reason": reason,
                "correlation_id": None,
                "holds_lease": holds_lease,
            },
        )
        if row is None:
            return False
        event_log.slot_transition(
            to_slot_change(row), old=SlotStatus.ERROR, new=SlotStatus.DELETING, reason=reason
        )
        self.wakeups.slots_due()
        return True

    async def delete_after_failed_resets(
        self, slot: LeasedSlot | StuckSlot, *, holds_lease: bool = False
    ) -> bool:
        """Resets did not help: the slot itself is the problem."""
        reason = f"{slot.resets} resets did not help: {slot.error_message}"
        return await self.mark_deleting(slot, reason=reason, holds_lease=holds_lease)

    async def cancel_queued(self, bot_id: BotId, *, reason: str) -> bool:
        """Take a bot out of the queue for good. False: it does not wait there."""
        return await self._cancel("cancel_queued_bot", bot_id, BotStatus.QUEUED, reason)

    async def cancel_retry(self, bot_id: BotId, *, reason: str) -> bool:
        """Do not try a bot again whose failed deployment is being cleared away."""
        return await self._cancel("cancel_bot_retry", bot_id, BotStatus.DEPLOYING, reason)

    async def _cancel(self, statement: str, bot_id: BotId, old: BotStatus, reason: str) -> bool:
        row = await self.database.fetch_one(statement, {"bot_id": bot_id, "reason": reason})
        if row is None:
            return False
        event_log.bot_transition(
            bot_id=bot_id,
            pool=row["pool_name"],
            old=old,
            new=BotStatus.CANCELLED,
            correlation_id=row["correlation_id"],
            reason=reason,
        )
        self.metrics.bots_ended(row["pool_name"], BotStatus.CANCELLED)
        return True
