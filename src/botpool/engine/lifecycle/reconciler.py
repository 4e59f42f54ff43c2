"""Leases slots whose next step is due, and takes that step.

The slot's row is the work item. Any replica may lease it; the lease prevents two replicas from
calling a backend about one slot at the same time, and the fence prevents late writes. A replica
that stops returns its leases, so that another one continues at once.
"""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from botpool.domain.errors import DatabaseUnavailable
from botpool.domain.fenced_slots import LeasedSlot
from botpool.domain.ids import SlotId
from botpool.domain.states import SlotStatus, Standby
from botpool.domain.trace_context import trace_of
from botpool.engine.lifecycle.deployment import Deployer
from botpool.engine.lifecycle.release import Releaser
from botpool.engine.lifecycle.reset import Resetter
from botpool.engine.lifecycle.running_bots import RunningBots
from botpool.engine.lifecycle.slot_preparation import SlotPreparer
from botpool.engine.lifecycle.slot_steps import SlotSteps
from botpool.engine.runtime.clock import loop_time
from botpool.engine.runtime.leases import Lease, LeaseTooShort
from botpool.engine.service import Service
from botpool.store.slot_leases import lease_slots, return_leases

_log = structlog.get_logger()
_MAX_STEPS = 32
_STARTING = frozenset({Standby.STARTING, Standby.PULLING})


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciler(Service):
    """Runs the due steps of slots, up to a fixed number at a time."""

    steps: SlotSteps
    deployer: Deployer
    releaser: Releaser
    resetter: Resetter
    preparer: SlotPreparer
    running_bots: RunningBots
    under_way: set[asyncio.Task[None]] = field(default_factory=set)
    unreturned: list[LeasedSlot] = field(default_factory=list)
    """Slots whose step lost the database: their backend calls are over, their lease is not."""

    async def run_due_steps(self) -> None:
        """Lease and start as many due steps as there is room for."""
        await self._return_unreturned()
        room = _MAX_STEPS - len(self.under_way)
        if room <= 0:
            return
        lease_s = self.policy.lease_s
        taken_at = loop_time()
        slots = await lease_slots(
            self.database,
            owner=self.steps.owner,
            lease_s=lease_s,
            limit=room,
            backends=sorted(self.backends),
        )
        for slot in slots:
            lease = Lease(
                taken_at=taken_at, lease_s=lease_s, call_timeout_s=self.policy.call_timeout_s
            )
            task = asyncio.create_task(self._run_step(slot, lease), name=_task_name(slot.slot_id))
            self.under_way.add(task)
            task.add_done_callback(self._step_ended)

    async def run_steps_of(self, slot_ids: Sequence[SlotId], *, within_s: float) -> None:
        """Run due steps, and wait for them and for steps of these slots that already run."""
        before = set(self.under_way)
        await self.run_due_steps()
        names = {_task_name(slot_id) for slot_id in slot_ids}
        tasks = [task for task in self.under_way if task not in before or task.get_name() in names]
        if tasks:
            ended, _ = await asyncio.wait(tasks, timeout=within_s)
            for task in ended:
                if not task.cancelled():
                    task.result()

    async def return_leases(self, *, within_s: float) -> None:
        """Let the running steps end, cancel late ones, and return all leases of this replica."""
        if self.under_way:
            _, late = await asyncio.wait(self.under_way, timeout=within_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await return_leases(self.database, owner=self.steps.owner)

    async def _return_unreturned(self) -> None:
        while self.unreturned:
            await self.steps.return_lease(self.unreturned[-1])
            self.unreturned.pop()

    def _step_ended(self, task: asyncio.Task[None]) -> None:
        was_full = len(self.under_way) >= _MAX_STEPS
        self.under_way.discard(task)
        if was_full:
            self.wakeups.slots.set()

    def _log_fields(self, slot: LeasedSlot) -> Mapping[str, str | None]:
        """Return what all log lines of a step have: the correlation id, and the trace if any."""
        fields = {"correlation_id": slot.correlation_id}
        if slot.traceparent is None and not self.policy.traces:
            return fields
        if slot.bot_id is not None and slot.correlation_id is not None:
            trace = trace_of(slot.bot_id, slot.correlation_id, slot.traceparent)
            fields["trace_id"] = trace.trace_id
        return fields

    async def _run_step(self, slot: LeasedSlot, lease: Lease) -> None:
        with structlog.contextvars.bound_contextvars(**self._log_fields(slot)):
            try:
                await self._dispatch(slot, lease)
            except LeaseTooShort:
                _log.info("step.lease_too_short", slot=slot.slot_id, status=str(slot.status))
                await self._end_step(slot, self.steps.postpone(slot))
            except DatabaseUnavailable as error:
                self._keep_lease(slot, error)
            except Exception as error:
                _log.exception("step.failed", slot=slot.slot_id, status=str(slot.status))
                if slot.status is SlotStatus.DEPLOYING or slot.standby in _STARTING:
                    retry = self.deployer.handle_unexpected_error(slot, error)
                else:
                    retry = self.steps.postpone(slot)
                await self._end_step(slot, retry)

    async def _end_step(self, slot: LeasedSlot, ending: Awaitable[None]) -> None:
        try:
            await ending
        except DatabaseUnavailable as error:
            self._keep_lease(slot, error)

    def _keep_lease(self, slot: LeasedSlot, error: DatabaseUnavailable) -> None:
        """Remember to return the lease when the database is available again."""
        _log.warning("step.database_unavailable", slot=slot.slot_id, problem=error.detail)
        self.unreturned.append(slot)

    async def _dispatch(self, slot: LeasedSlot, lease: Lease) -> None:
        match slot.status:
            case SlotStatus.DEPLOYING:
                await self.deployer.step(slot, lease)
            case SlotStatus.BUSY:
                await self.running_bots.step(slot, lease)
            case SlotStatus.RELEASING:
                await self.releaser.step(slot, lease)
            case SlotStatus.ERROR:
                await self.resetter.reset(slot, lease)
            case SlotStatus.DELETING:
                await self.resetter.delete(slot, lease)
            case SlotStatus.IDLE if slot.standby in _STARTING:
                await self.deployer.step(slot, lease)
            case SlotStatus.IDLE if slot.standby is Standby.STOPPING:
                await self.releaser.step(slot, lease)
            case SlotStatus.IDLE if slot.standby is None:
                await self.preparer.prepare(slot, lease)
            case SlotStatus.IDLE:
                await self.steps.postpone(slot)


def _task_name(slot_id: SlotId) -> str:
    return f"step of slot {slot_id}"
