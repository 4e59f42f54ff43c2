"""The recovery pass: finds stuck slots and applies the recovery table to them.

The pass runs every minute, at start and on demand. It reads the slots, observes the backends
outside any transaction, lets `domain/recovery.py` decide, and applies each action with a fenced
write. A pass that runs twice or dies in the middle changes nothing that the next pass would not.
A backend that does not answer is no evidence about its slots.

An outage of Botpool is no evidence either: replicas record that they can write heartbeats, and the
silence of an agent counts only from the end of the last gap (`liveness.py`). When most bots of a
pool become silent within a window, the passes of all replicas give each of them one more window.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

import structlog

from botpool.backends.protocol import Backend
from botpool.domain.errors import BackendError
from botpool.domain.fenced_slots import StuckSlot, expected_runs
from botpool.domain.ids import ContainerId, SlotId
from botpool.domain.observation import Observation
from botpool.domain.recovery import (
    RecoveryAction,
    RecoveryCase,
    RecoveryLimits,
    decide,
)
from botpool.domain.start_assessment import has_exited
from botpool.engine.admission.quotas import Quotas
from botpool.engine.maintenance.error_resets import ErrorResets
from botpool.engine.maintenance.liveness import Liveness
from botpool.engine.maintenance.recovery_actions import RecoveryActions
from botpool.engine.maintenance.rescheduling import Rescheduling
from botpool.engine.maintenance.silence_alarms import SilenceAlarms
from botpool.engine.observability import event_log
from botpool.engine.runtime.leases import timed_pages
from botpool.engine.service import Service
from botpool.store import recovery as statements

_log = structlog.get_logger()
_MAX_STALLED = 1_000

_COUNTED_AS: Mapping[RecoveryAction, str] = {
    RecoveryAction.RELEASE: "recovered",
    RecoveryAction.RESET: "recovered",
    RecoveryAction.FAIL: "failed",
    RecoveryAction.END: "failed",
    RecoveryAction.TOUCH: "skipped",
    RecoveryAction.HEAL: "skipped",
    RecoveryAction.SKIP: "skipped",
    RecoveryAction.DELETE: "deleted",
}
"""The other actions count by their outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryResult:
    """How many slots a pass handled.

    `recovered`: reset or released. `requeued`: released from a stuck deployment, and the bot is
    queued again. `failed`: the bot failed, or the reset did. `skipped`: the bot runs, or the
    deployment makes progress.
    """

    recovered: int = 0
    requeued: int = 0
    failed: int = 0
    deleted: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery(Service):
    """Runs recovery passes."""

    actions: RecoveryActions
    silence_alarms: SilenceAlarms
    error_resets: ErrorResets
    liveness: Liveness
    rescheduling: Rescheduling
    quotas: Quotas

    @property
    def limits(self) -> RecoveryLimits:
        return self.policy.recovery

    async def run(self) -> None:
        """Run a scheduled pass and log its result unless it found nothing."""
        result = await self.recover()
        if result != RecoveryResult():
            _log.info("recovery.pass", **asdict(result))

    async def recover(self) -> RecoveryResult:
        """Run one pass and return its counts."""
        await self.rescheduling.run()
        await self.quotas.count_all()
        gap_ended_at = await self.liveness.record()
        slots = await statements.list_stuck_slots(
            self.database,
            backends=sorted(self.backends),
            deploying_timeout_s=self.limits.deploying_timeout_s,
            heartbeat_freshness_s=self.limits.heartbeat_freshness_s,
        )
        await statements.record_stalled_bots(self.database, limit=_MAX_STALLED)
        observations = await self._observe(slots)
        cases = [(slot, self._to_case(slot, observations, gap_ended_at)) for slot in slots]
        silent_pools = await self.silence_alarms.update(
            gap_ended_at=gap_ended_at,
            exited=[slot.slot_id for slot, case in cases if case.has_exited],
        )
        counts, in_error = Counter[str](), list[SlotId]()
        for slot, case in cases:
            action = decide(case)
            if action is RecoveryAction.FAIL and slot.pool_name in silent_pools:
                action = action if case.is_silent_for_two_windows else RecoveryAction.SKIP
            if action is RecoveryAction.RETRY_RESET:
                in_error.append(slot.slot_id)
            elif await self.actions.apply(action, slot, case):
                counts[self._counted_as(action, slot)] += 1
        return RecoveryResult(**(counts + await self.error_resets.run(in_error)))

    def _counted_as(self, action: RecoveryAction, slot: StuckSlot) -> str:
        if action is not RecoveryAction.RETRY:
            return _COUNTED_AS[action]
        has_attempts = slot.attempts is not None and slot.attempts < self.policy.deploy_attempts
        return "requeued" if has_attempts else "failed"

    async def _observe(self, slots: Sequence[StuckSlot]) -> Mapping[ContainerId, Observation]:
        """Observe the containers with one call per backend; leave out backends that fail."""
        observations: dict[ContainerId, Observation] = {}
        for name in sorted({slot.backend for slot in slots}):
            own = [slot for slot in slots if slot.backend == name and slot.container_id]
            if not own:
                continue
            try:
                observations |= await self._observe_backend(self.backends[name], own)
            except BackendError as error:
                event_log.backend_unavailable("recovery.unavailable", error, backend=name)
        return observations

    async def _observe_backend(
        self, backend: Backend, slots: Sequence[StuckSlot]
    ) -> Mapping[ContainerId, Observation]:
        container_ids = [slot.container_id for slot in slots if slot.container_id]
        expected = expected_runs(slots)
        return await timed_pages(
            lambda timeout_s: backend.observe(
                container_ids, expected=expected, timeout_s=timeout_s
            ),
            self.policy.call_timeout_s,
        )

    def _to_case(
        self,
        slot: StuckSlot,
        observations: Mapping[ContainerId, Observation],
        gap_ended_at: datetime,
    ) -> RecoveryCase:
        observation = observations.get(slot.container_id) if slot.container_id else None
        return RecoveryCase(
            status=slot.status,
            phase=slot.phase,
            unchanged_since=_latest(slot.phase_at, slot.last_used_at) or slot.now,
            started_at=slot.start_issued_at,
            bot_status=slot.bot_status,
            heartbeat_at=slot.heartbeat_at,
            silent_since=_latest(slot.heartbeat_at, slot.running_at, gap_ended_at),
            needs_heartbeats=slot.needs_heartbeats,
            skipped=slot.skipped_recoveries,
            resets=slot.resets,
            observation=observation,
            has_exited=observation is not None and self._has_exited(slot, observation),
            now=slot.now,
            limits=self.limits,
        )

    def _has_exited(self, slot: StuckSlot, observation: Observation) -> bool:
        return slot.run is not None and has_exited(
            observation,
            assignment_id=slot.run,
            running_at=slot.running_at,
            status_unreliable_at=slot.status_unreliable_at,
            last_heartbeat_at=slot.heartbeat_at,
            now=slot.now,
            status_lag_s=self.backends[slot.backend].status_lag_s,
            heartbeat_s=self.policy.heartbeat_interval_ms / 1000,
        )


def _latest(*times: datetime | None) -> datetime | None:
    return max((at for at in times if at is not None), default=None)
