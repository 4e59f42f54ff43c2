"""The reconciler: leases slots whose next step is due, and makes that step.

The slot row is the work item. Any replica may take it; the lease keeps two from calling a backend
about one slot at once, and the fence keeps a late one from writing. On SIGTERM the leases are
handed back, so that another replica goes on at once.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, field

import structlog

from botpool.backends.protocol import Backend
from botpool.domain.bot_ending import ending_after_deadline
from botpool.domain.errors import DatabaseUnavailable
from botpool.domain.records import LeasedSlot
from botpool.domain.states import SlotStatus
from botpool.engine.lifecycle.deployment import Deployer
from botpool.engine.lifecycle.release import Releaser
from botpool.engine.lifecycle.reset import Resetter
from botpool.engine.lifecycle.transitions import Transitions
from botpool.engine.runtime.clock import loop_time
from botpool.engine.runtime.leases import Lease, LeaseTooShort
from botpool.store.rows import to_leased_slot

_log = structlog.get_logger()
_AT_ONCE = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciler:
    transitions: Transitions
    deployer: Deployer
    releaser: Releaser
    resetter: Resetter
    backends: Mapping[str, Backend]
    under_way: set[asyncio.Task[None]] = field(default_factory=set)
    owed: list[LeasedSlot] = field(default_factory=list)
    """Slots whose step lost the database: their calls have ended, only the lease is still out."""

    async def run_due_steps(self) -> None:
        """Take as much due work as there is room for. A step that ends makes room, and wakes us."""
        await self._return_owed()
        room = _AT_ONCE - len(self.under_way)
        if room <= 0:
            return
        policy = self.transitions.policy
        taken_at = loop_time()
        rows = await self.transitions.database.fetch(
            "lease_slots",
            {
                "owner": self.transitions.owner,
                "lease_s": policy.lease_s,
                "limit": room,
                "backends": sorted(self.backends),
            },
        )
        for row in rows:
            lease = Lease(
                taken_at=taken_at, lease_s=policy.lease_s, call_timeout_s=policy.call_timeout_s
            )
            task = asyncio.create_task(self._make_step(to_leased_slot(row), lease))
            self.under_way.add(task)
            task.add_done_callback(self._ended)

    async def return_leases(self, *, within_s: float) -> None:
        """Let the steps under way end, then give every lease back."""
        if self.under_way:
            _, late = await asyncio.wait(self.under_way, timeout=within_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self.transitions.database.fetch("return_leases", {"owner": self.transitions.owner})

    async def _return_owed(self) -> None:
        while self.owed:
            await self.transitions.return_lease(self.owed[-1])
            self.owed.pop()

    def _ended(self, task: asyncio.Task[None]) -> None:
        was_full = len(self.under_way) >= _AT_ONCE
        self.under_way.discard(task)
        if was_full:
            self.transitions.wakeups.slots.set()

    async def _make_step(self, slot: LeasedSlot, lease: Lease) -> None:
        with structlog.contextvars.bound_contextvars(correlation_id=slot.correlation_id):
            try:
                await self._dispatch(slot, lease)
            except LeaseTooShort:
                _log.info("step.lease_too_short", slot=slot.slot_id, status=str(slot.status))
                await self._quietly(slot, self.transitions.postpone(slot))
            except DatabaseUnavailable as error:
                self._lost_the_database(slot, error)
            except Exception as error:
                _log.exception("step.failed", slot=slot.slot_id, status=str(slot.status))
                deploys = slot.status is SlotStatus.DEPLOYING
                again = self.deployer.handle_unexpected_error(slot, error) if deploys else None
                await self._quietly(slot, again or self.transitions.postpone(slot))

    async def _quietly(self, slot: LeasedSlot, again: Awaitable[None]) -> None:
        try:
            await again
        except DatabaseUnavailable as error:
            self._lost_the_database(slot, error)

    def _lost_the_database(self, slot: LeasedSlot, error: DatabaseUnavailable) -> None:
        _log.warning("step.database_unavailable", slot=slot.slot_id, problem=error.detail)
        self.owed.append(slot)

    async def _dispatch(self, slot: LeasedSlot, lease: Lease) -> None:
        match slot.status:
            case SlotStatus.DEPLOYING:
                await self.deployer.step(slot, lease)
            case SlotStatus.BUSY:
                await self._end_overstay(slot)
            case SlotStatus.RELEASING:
                await self.releaser.step(slot, lease)
            case SlotStatus.ERROR:
                await self.resetter.reset(slot, lease)
            case SlotStatus.DELETING:
                await self.resetter.delete(slot, lease)
            case SlotStatus.IDLE:
                await self.transitions.postpone(slot)

    async def _end_overstay(self, slot: LeasedSlot) -> None:
        """A busy slot is due only when its bot's time is over: asked to leave, or the maximum."""
        assert slot.assignment_id is not None
        assert slot.bot_status is not None
        ending = ending_after_deadline(
            slot.bot_status,
            asked_to_leave=slot.leave_by is not None,
            max_duration_s=self.transitions.policy.max_duration_s,
        )
        if not await self.transitions.end_bot(
            slot.assignment_id, ending, version=slot.version, holds_lease=True
        ):
            await self.transitions.abandon_step(slot, wanted="end the overstay")
