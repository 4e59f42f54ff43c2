"""The recovery pass: what does not move is looked into, and put right by one table.

Every minute, at the start, and whenever somebody asks. Slots are read, the backends are asked
outside any transaction, `domain/recovery.py` decides, and each act is one fenced write: a pass that
is made twice, or dies in the middle, changes nothing that the next one would not. What a backend
does not answer for is left alone.

Our own outage is no evidence. Replicas say that they live; silence of agents counts only from the
end of the last time that none did. And when a crowd falls silent at once, the pass waits one more
window before it believes it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog

from botpool.backends.protocol import Backend
from botpool.domain.bot_ending import BotEnding, ending_after_exit
from botpool.domain.errors import BackendError
from botpool.domain.ids import ContainerId, PoolName
from botpool.domain.observation import Observation
from botpool.domain.records import StuckSlot
from botpool.domain.recovery import (
    RecoveryAction,
    RecoveryCase,
    RecoveryLimits,
    decide,
    is_mass_silence,
)
from botpool.domain.start_assessment import has_exited
from botpool.domain.states import BotStatus, FailureCode, SlotStatus
from botpool.engine.lifecycle.transitions import Transitions
from botpool.engine.observability import event_log
from botpool.engine.runtime.leases import timed
from botpool.store.rows import to_slot_change, to_stuck_slot

_log = structlog.get_logger()
_GAP_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryResult:
    """What a pass did."""

    recovered: int = 0
    failed: int = 0
    deleted: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    transitions: Transitions
    backends: Mapping[str, Backend]

    @property
    def limits(self) -> RecoveryLimits:
        return self.transitions.policy.recovery

    async def record_liveness(self) -> datetime:
        """Touch the row by which replicas know of their own outages; when the last one ended."""
        row = await self.transitions.database.fetch_one("record_liveness", {"gap_s": _GAP_S})
        assert row is not None, "the statement always has a row"
        gap_ended_at: datetime = row["gap_ended_at"]
        return gap_ended_at

    async def run(self) -> None:
        """The pass that nobody asked for: it tells only if it found something."""
        found = await self.recover()
        if found != RecoveryResult():
            _log.info(
                "recovery.pass",
                recovered=found.recovered,
                failed=found.failed,
                deleted=found.deleted,
                skipped=found.skipped,
            )

    async def recover(self) -> RecoveryResult:
        gap_ended_at = await self.record_liveness()
        rows = await self.transitions.database.fetch(
            "list_stuck_slots",
            {
                "backends": sorted(self.backends),
                "deploying_timeout_s": self.limits.deploying_timeout_s,
                "heartbeat_freshness_s": self.limits.heartbeat_freshness_s,
                "max_resets": self.limits.max_resets,
            },
        )
        slots = [to_stuck_slot(row) for row in rows]
        seen = await self._observe(slots)
        patients = [(slot, self._patient(slot, seen, gap_ended_at)) for slot in slots]
        deaf = await self._deaf_pools(patients)
        found = Counter[str]()
        for slot, patient in patients:
            act = decide(patient)
            if act is RecoveryAction.FAIL and slot.pool_name in deaf:
                act = RecoveryAction.SKIP
            if heading := await self._act(act, slot, patient):
                found[heading] += 1
        return RecoveryResult(**found)

    async def _observe(self, slots: Sequence[StuckSlot]) -> Mapping[ContainerId, Observation]:
        """One list call for each backend; nothing of those that do not answer."""
        seen: dict[ContainerId, Observation] = {}
        for name in sorted({slot.backend for slot in slots}):
            backend = self.backends[name]
            wanted = [s.container_id for s in slots if s.backend == name and s.container_id]
            try:
                seen |= await self._look_at(backend, wanted) if wanted else {}
            except BackendError as error:
                event_log.unavailable("recovery.unavailable", error, backend=name)
        return seen

    async def _look_at(
        self, backend: Backend, wanted: Sequence[ContainerId]
    ) -> Mapping[ContainerId, Observation]:
        return await timed(
            lambda timeout_s: backend.observe(wanted, timeout_s=timeout_s),
            self.transitions.policy.call_timeout_s,
        )

    def _patient(
        self, slot: StuckSlot, seen: Mapping[ContainerId, Observation], gap_ended_at: datetime
    ) -> RecoveryCase:
        observation = seen.get(slot.container_id) if slot.container_id else None
        times = (slot.heartbeat_at, slot.running_at, gap_ended_at)
        heard = [at for at in times if at is not None]
        still = [at for at in (slot.phase_at, slot.last_used_at) if at is not None]
        return RecoveryCase(
            status=slot.status,
            phase=slot.phase,
            still_since=max(still, default=slot.now),
            started_at=slot.start_issued_at,
            bot_status=slot.bot_status,
            heartbeat_at=slot.heartbeat_at,
            silent_since=max(heard),
            needs_heartbeats=slot.needs_heartbeats,
            skipped=slot.skipped_recoveries,
            resets=slot.resets,
            seen=observation,
            has_exited=observation is not None and self._has_exited(slot, observation),
            now=slot.now,
            limits=self.limits,
        )

    def _has_exited(self, slot: StuckSlot, seen: Observation) -> bool:
        return slot.assignment_id is not None and has_exited(
            seen,
            assignment_id=slot.assignment_id,
            running_at=slot.running_at,
            status_unreliable_at=slot.status_unreliable_at,
            last_heartbeat_at=slot.heartbeat_at,
            now=slot.now,
            status_lag_s=self.backends[slot.backend].status_lag_s,
            heartbeat_s=self.transitions.policy.heartbeat_interval_ms / 1000,
        )

    async def _deaf_pools(
        self, patients: Sequence[tuple[StuckSlot, RecoveryCase]]
    ) -> set[PoolName]:
        """Pools in which so many fell silent at once that one more window is waited."""
        database = self.transitions.database
        silent = Counter(
            slot.pool_name
            for slot, patient in patients
            if patient.status is not SlotStatus.IDLE
            and patient.needs_heartbeats
            and patient.is_silent
            and not patient.has_exited
        )
        crowds: set[PoolName] = set()
        if silent:
            rows = await database.fetch("count_live_bots", {})
            living = {row["pool_name"]: row["living"] for row in rows}
            crowds = {
                pool_name
                for pool_name, count in silent.items()
                if is_mass_silence(silent=count, living=living.get(pool_name, 0))
            }
        await database.fetch("end_silence_alarms", {"silent": sorted(crowds)})
        return {pool_name for pool_name in sorted(crowds) if await self._still_waits(pool_name)}

    async def _still_waits(self, pool_name: PoolName) -> bool:
        row = await self.transitions.database.fetch_one(
            "raise_silence_alarm", {"pool_name": pool_name}
        )
        assert row is not None, "the pool of a slot exists"
        window = timedelta(seconds=self.limits.heartbeat_freshness_s)
        waits: bool = row["now"] - row["silence_alarm_at"] <= window
        if waits:
            _log.error("recovery.mass_silence", pool=pool_name, since=row["silence_alarm_at"])
        return waits

    async def _act(self, act: RecoveryAction, slot: StuckSlot, patient: RecoveryCase) -> str | None:
        """Do it; under which heading it counts, if it was done."""
        if act is RecoveryAction.LEAVE:
            return None
        if act is RecoveryAction.SKIP:
            return "skipped"
        heading, work = {
            RecoveryAction.RETRY: ("recovered", self._retry),
            RecoveryAction.FAIL: ("failed", self._fail),
            RecoveryAction.END: ("failed", self._end),
            RecoveryAction.TOUCH: ("skipped", self._touch),
            RecoveryAction.HEAL: ("skipped", self._heal),
            RecoveryAction.RELEASE: ("recovered", self._release),
            RecoveryAction.RESET: ("recovered", self._reset),
            RecoveryAction.DELETE: ("deleted", self._delete),
        }[act]
        if not await work(slot, patient):
            return None
        self.transitions.metrics.recovered(act.name.lower())
        return heading

    async def _fenced(
        self, statement: str, slot: StuckSlot, **more: object
    ) -> Mapping[str, Any] | None:
        return await self.transitions.database.fetch_one(
            statement,
            {
                "slot_id": slot.slot_id,
                "assignment_id": slot.assignment_id,
                "version": slot.version,
                **more,
            },
        )

    async def _touch(self, slot: StuckSlot, _: RecoveryCase) -> bool:
        return await self._fenced("touch_slot", slot) is not None

    async def _heal(self, slot: StuckSlot, _: RecoveryCase) -> bool:
        assert slot.assignment_id is not None
        reason = "its heartbeats are fresh"
        return await self.transitions.mark_running(
            slot.assignment_id, version=slot.version, reason=reason, by_agent=True
        )

    async def _retry(self, slot: StuckSlot, _: RecoveryCase) -> bool:
        minutes = self.limits.deploying_timeout_s / 60
        reason = f"not running {minutes:g} min after its start, and no deployment is under way"
        return await self.transitions.fail_deployment(slot, reason=reason)

    async def _fail(self, slot: StuckSlot, _: RecoveryCase) -> bool:
        assert slot.assignment_id is not None
        assert slot.bot_id is not None
        limit_s = self.limits.heartbeat_freshness_s
        ending = BotEnding(
            status=BotStatus.FAILED,
            reason=f"No heartbeat for more than {limit_s:g} s.",
            failure_code=FailureCode.HEARTBEAT_LOST,
        )
        if not await self.transitions.end_bot(
            slot.assignment_id, ending, version=slot.version, silent_since=slot.now
        ):
            return False
        event_log.heartbeat_lost(
            slot_id=slot.slot_id,
            name=slot.slot_name,
            bot_id=slot.bot_id,
            container_id=slot.container_id,
            correlation_id=slot.correlation_id,
            last_heartbeat_at=slot.heartbeat_at,
            threshold_s=limit_s,
        )
        return True

    async def _end(self, slot: StuckSlot, patient: RecoveryCase) -> bool:
        assert slot.assignment_id is not None
        assert patient.bot_status is not None
        assert patient.seen is not None
        ending = ending_after_exit(
            patient.bot_status,
            asked_to_leave=slot.leave_by is not None,
            detail=patient.seen.detail or str(patient.seen.state),
        )
        return await self.transitions.end_bot(slot.assignment_id, ending, version=slot.version)

    async def _release(self, slot: StuckSlot, _: RecoveryCase) -> bool:
        released = await self._fenced("release_orphaned_slot", slot)
        if released is None:
            return False
        event_log.slot_transitioned(
            to_slot_change(released),
            old=SlotStatus(released["status"]),
            new=SlotStatus.RELEASING,
            reason="its bot had ended already",
        )
        self.transitions.wakeups.slots_due()
        return True

    async def _reset(self, slot: StuckSlot, _: RecoveryCase) -> bool:
        reason = "its container was seen running for nobody"
        suspect = await self._fenced("mark_slot_error", slot, reason=reason)
        if suspect is None:
            return False
        event_log.slot_transitioned(
            to_slot_change(suspect), old=SlotStatus.IDLE, new=SlotStatus.ERROR, reason=reason
        )
        self.transitions.wakeups.slots_due()
        return True

    async def _delete(self, slot: StuckSlot, _: RecoveryCase) -> bool:
        return await self.transitions.delete_after_failed_resets(slot)
