"""Reschedules work that lies implausibly far ahead, because the database's clock was set back.

A clock that is set back leaves times in the future: leases, next steps, deadlines, heartbeats.
Every recovery pass corrects them, and a jump starts a pass at once. Each statement stands alone and
may be repeated. A row under another transaction's lock waits for the next pass.
"""

from dataclasses import dataclass

import structlog

from botpool.domain.ids import SlotId
from botpool.engine.service import Service
from botpool.store import clock
from botpool.store.pacing import reschedule_egresses

_log = structlog.get_logger()
_TOLERANCE_S = 5.0
"""Smaller steps of the clock are usual and need no correction."""
_MAX_DELAY_S = 120.0
"""Longer than any delay of a step that only waits before it is repeated."""
_MAX_PAUSE_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rescheduling(Service):
    """Corrects times in the future."""

    async def run(self) -> None:
        """Correct all times that lie implausibly far ahead, and log the number of rows."""
        queue = await clock.reschedule_queue(self.database, tolerance_s=_TOLERANCE_S)
        # Before the slots: a standby is outdated if it started before the pool was changed.
        await clock.correct_pools(self.database, tolerance_s=_TOLERANCE_S)
        slots = await self._slots()
        heartbeats = await clock.correct_heartbeats(self.database, tolerance_s=_TOLERANCE_S)
        assignments = await clock.correct_assignments(self.database, tolerance_s=_TOLERANCE_S)
        await clock.correct_liveness(self.database, tolerance_s=_TOLERANCE_S)
        backends = await self._backends()
        await reschedule_egresses(self.database)
        if queue or slots or heartbeats or assignments or backends:
            _log.warning(
                "recovery.rescheduled",
                slots=len(slots),
                queued=len(queue),
                heartbeats=len(heartbeats),
                backends=len(backends),
            )
            self.wakeups.wake_reconcilers()

    async def _slots(self) -> list[SlotId]:
        policy = self.policy
        slots = await clock.reschedule_slots(
            self.database,
            tolerance_s=_TOLERANCE_S,
            lease_s=policy.lease_s,
            deadline_s=max(policy.deploy_timeout_s, policy.deploy_wait_timeout_s),
            delay_s=_MAX_DELAY_S,
            leave_grace_s=policy.leave_grace_s,
        )
        await clock.reschedule_leaves(
            self.database, tolerance_s=_TOLERANCE_S, leave_grace_s=policy.leave_grace_s
        )
        return slots

    async def _backends(self) -> list[str]:
        policy = self.policy
        await clock.forget_future_requests(self.database, tolerance_s=_TOLERANCE_S)
        await clock.reschedule_descriptions(
            self.database, tolerance_s=_TOLERANCE_S, hold_s=policy.describe_hold_s
        )
        return await clock.reschedule_backends(
            self.database,
            tolerance_s=_TOLERANCE_S,
            observe_interval_s=policy.observe_interval_s,
            pause_s=_MAX_PAUSE_S,
        )
