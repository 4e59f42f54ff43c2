"""Looking: what the backend shows of the containers that should run, and what follows from it.

One list call serves a whole backend, leased so that replicas do not multiply it. Slots are read
before the backend is asked, and what was seen is written only if their version still stands: so an
observation counts only if its call began after the present phase was committed. A look that is
made twice, or late, changes nothing the second time.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import structlog

from botpool.backends.protocol import Backend
from botpool.domain import reasons
from botpool.domain.bot_ending import ending_after_exit
from botpool.domain.errors import BackendError
from botpool.domain.ids import ContainerId
from botpool.domain.observation import (
    ACTIVE_DEPLOYMENT,
    FAILED_DEPLOYMENT,
    ContainerState,
    DeploymentState,
    Observation,
)
from botpool.domain.records import ObservedSlot
from botpool.domain.start_assessment import StartVerdict, assess_start, has_exited
from botpool.domain.states import SlotStatus
from botpool.engine.lifecycle.deployment_statuses import DeploymentStatuses
from botpool.engine.lifecycle.release import Releaser
from botpool.engine.lifecycle.transitions import Transitions
from botpool.engine.observability import event_log
from botpool.engine.runtime.leases import timed
from botpool.store.rows import to_observed_slot


@dataclass(frozen=True, slots=True, kw_only=True)
class Observer:
    transitions: Transitions
    releaser: Releaser
    backends: Mapping[str, Backend]
    deployments: DeploymentStatuses = field(default_factory=DeploymentStatuses)

    async def observe_due_backends(self) -> None:
        # Leased for a little less than the interval: the replica that holds the rhythm keeps it.
        interval_s = self.transitions.policy.observe_interval_s * 0.8
        for row in await self.transitions.database.fetch(
            "lease_observations", {"interval_s": interval_s, "backends": sorted(self.backends)}
        ):
            await self.observe(row["backend"])

    async def observe(self, backend: str, *, container_id: ContainerId | None = None) -> None:
        """Look at the containers of a backend, or at one, and act on what is seen."""
        rows = await self.transitions.database.fetch(
            "list_observed_slots", {"backend": backend, "container_id": container_id}
        )
        slots = [to_observed_slot(row) for row in rows]
        if container_id is None:
            self.deployments.forget_others(backend, slots)
        if not slots:
            return
        wanted = [slot.container_id for slot in slots]
        try:
            seen = await timed(
                lambda timeout_s: self.backends[backend].observe(wanted, timeout_s=timeout_s),
                self.transitions.policy.call_timeout_s,
            )
        except BackendError as error:
            # No evidence of anything: every slot stays as it is until the backend answers.
            event_log.backend_unavailable("observation.unavailable", error, backend=backend)
            return
        if any(each.status_unreliable for each in seen.values()):
            await self.transitions.database.fetch("mark_status_unreliable", {"backend": backend})
        for slot in slots:
            if (observation := seen.get(slot.container_id)) is not None:
                await self.judge(slot, observation)

    async def judge(self, slot: ObservedSlot, seen: Observation) -> None:
        """RecoveryAction on one observation of one slot."""
        with structlog.contextvars.bound_contextvars(correlation_id=slot.correlation_id):
            match slot.status:
                case SlotStatus.BUSY:
                    await self._judge_busy(slot, seen)
                case SlotStatus.RELEASING:
                    await self.releaser.judge(slot, seen)
                case _:
                    await self._judge_starting(slot, seen)

    async def _judge_busy(self, slot: ObservedSlot, seen: Observation) -> None:
        lag_s = self.backends[slot.backend].status_lag_s
        if seen.state is ContainerState.RUNNING and lag_s and slot.observed_running_at is None:
            await self.transitions.database.fetch(
                "record_observed_running", {"assignment_id": slot.assignment_id}
            )
        if not has_exited(
            seen,
            assignment_id=slot.assignment_id,
            running_at=slot.running_at,
            status_unreliable_at=slot.status_unreliable_at,
            last_heartbeat_at=slot.last_heartbeat_at,
            now=slot.now,
            status_lag_s=lag_s,
            heartbeat_s=self.transitions.policy.heartbeat_interval_ms / 1000,
        ):
            return
        ending = ending_after_exit(
            slot.bot_status,
            asked_to_leave=slot.leave_by is not None,
            detail=seen.detail or str(seen.state),
        )
        await self.transitions.end_bot(slot.assignment_id, ending, version=slot.version)

    async def _judge_starting(self, slot: ObservedSlot, seen: Observation) -> None:
        started_at = slot.start_issued_at
        assert started_at is not None, "only started slots are looked at"
        if seen.deployment is not None:
            self.deployments.saw(slot, seen.deployment)
        if _deployment_may_be_over(slot, seen):
            try:
                slot, seen = await self._ask_for_deployment(slot, seen)
            except BackendError as error:
                event_log.backend_unavailable("observation.unavailable", error, slot=slot.slot_id)
                return
        judgement = assess_start(
            seen,
            assignment_id=slot.assignment_id,
            started_at=started_at,
            awaits_deployment=slot.deployment_id is not None,
            deployment_ended_at=slot.deployment_ended_at,
            now=slot.now,
            grace_s=self.transitions.policy.deploy_grace_s,
            timeout_s=self.transitions.policy.deploy_timeout_s,
        )
        if judgement.verdict is StartVerdict.RUNNING:
            await self.transitions.mark_running(
                slot.assignment_id, version=slot.version, reason=reasons.OBSERVED_RUNNING
            )
        elif judgement.verdict is StartVerdict.FAILED:
            await self.transitions.fail_deployment(
                slot, reason=judgement.reason, deployment_over=seen.deployment in FAILED_DEPLOYMENT
            )

    async def _ask_for_deployment(
        self, slot: ObservedSlot, seen: Observation
    ) -> tuple[ObservedSlot, Observation]:
        """Learn how a deployment ended that the backend no longer lists, and keep its end."""
        deployment_id, backend = slot.deployment_id, self.backends[slot.backend]
        assert deployment_id is not None
        state = await timed(
            lambda timeout_s: backend.deployment(
                slot.container_id, deployment_id, timeout_s=timeout_s
            ),
            self.transitions.policy.call_timeout_s,
        )
        self.deployments.saw(slot, state)
        seen = replace(seen, deployment=state)
        if state is not DeploymentState.FINISHED:
            return slot, seen
        version = await self.transitions.end_deployment(slot)
        if version is None:
            return slot, seen
        return replace(slot, version=version, deployment_ended_at=slot.now), seen


def _deployment_may_be_over(slot: ObservedSlot, seen: Observation) -> bool:
    """A deployment is asked for once it is not listed any more, until its end is known."""
    return (
        slot.deployment_id is not None
        and slot.deployment_ended_at is None
        and seen.deployment not in ACTIVE_DEPLOYMENT
        and seen.state is not ContainerState.RUNNING
    )
