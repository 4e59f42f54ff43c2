"""The outcome of a deployment: its container runs, its deployment finished, or it failed.

Each outcome is one committed statement with its history. Outcomes that follow a backend call are
fenced by the slot's version; an agent's call is fenced by its assignment. After a crash before the
commit, the next observation or the deadline repeats the outcome; a repeated or late one changes
nothing.
"""

from dataclasses import dataclass, replace

from botpool.backends.protocol import run_protector
from botpool.domain.fenced_slots import FencedSlot, LeasedSlot, ObservedSlot, ObservedStandby
from botpool.domain.ids import AssignmentId
from botpool.domain.observation import DeploymentState
from botpool.domain.states import FailureCode, SlotPhase, SlotStatus, Standby
from botpool.engine.lifecycle.image_gate import ImageGate
from botpool.engine.observability import event_log
from botpool.engine.service import Service
from botpool.store.deployments import (
    RunningSlot,
    end_deployment,
    fail_deployment,
    mark_running,
    record_deployment_status,
)
from botpool.store.rollouts import record_pull_failure
from botpool.store.slots import mark_slot_error
from botpool.store.standbys import AcceptedBot, give_up_handover

_FRESH_SHARE = 1 / 24
"""The share of `image_known_s` after which a start renews the time of an image's last start."""


class SlotChanged(Exception):
    """A fenced write found another version: the observation is out of date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentOutcome(Service):
    """Records how deployments end."""

    image_gate: ImageGate

    async def mark_running(
        self,
        assignment_id: AssignmentId,
        *,
        version: int | None,
        reason: str,
        by_agent: bool = False,
        healed: bool = False,
    ) -> bool:
        """Make the slot busy; False if it is not deploying, or has changed since `version`."""
        slot = await mark_running(
            self.database,
            assignment_id=assignment_id,
            version=version,
            max_duration_s=self.policy.max_duration_s,
            image_fresh_s=self.policy.image_known_s * _FRESH_SHARE,
            by_agent=by_agent,
            healed=healed,
            reason=reason,
        )
        if slot is None:
            return False
        self.protect_call(slot)
        if slot.deployment_id and slot.deployment_status is not DeploymentState.FINISHED:
            event_log.deployment_status_changed(
                slot,
                slot.deployment_id,
                old=slot.deployment_status,
                new=DeploymentState.FINISHED,
            )
        event_log.slot_transition(
            slot, old=SlotStatus.DEPLOYING, new=SlotStatus.BUSY, reason=reason
        )
        if slot.late_s is not None:
            self.metrics.joined(
                slot.pool_name, late_s=slot.late_s, probability=slot.on_time_probability
            )
        self.metrics.running(slot.pool_name, warm=slot.warm, after_s=slot.deploying_s)
        if slot.starting_s is not None:
            self.metrics.phase_passed(slot.pool_name, SlotPhase.STARTING, after_s=slot.starting_s)
        if slot.others_wait:
            await self.image_gate.open(slot.backend)
        return True

    def protect_call(self, slot: RunningSlot | AcceptedBot) -> None:
        """Let the backend protect the run of a slot that became busy.

        After a crash in between, the next observation does the same.
        """
        backend = self.backends.get(slot.backend)  # Agents call any replica.
        protector = None if backend is None else run_protector(backend)
        if protector is not None and slot.container_id and slot.deployment_id:
            protector.protect(slot.container_id, slot.run_id, slot.deployment_id)

    async def record_status(self, slot: ObservedSlot, status: DeploymentState) -> ObservedSlot:
        """Record and log the status of a slot's deployment; raises SlotChanged if it is late."""
        assert slot.deployment_id is not None
        if status is slot.deployment_status:
            return slot
        is_finished = status is DeploymentState.FINISHED
        version = await (
            end_deployment(self.database, **slot.fence)
            if is_finished
            else record_deployment_status(self.database, deployment_status=status, **slot.fence)
        )
        if version is None:
            raise SlotChanged
        event_log.deployment_status_changed(
            slot, slot.deployment_id, old=slot.deployment_status, new=status
        )
        slot = replace(slot, version=version, deployment_status=status)
        if not is_finished:
            return slot
        await self.image_gate.open(slot.backend)
        return replace(slot, deployment_ended_at=slot.now)

    async def give_up_handover(
        self, slot: FencedSlot, *, reason: str, holds_lease: bool = False
    ) -> bool:
        """Stop a standby that did not accept its bot, which then starts cold in the slot.

        Returns False if the slot has changed: an accept that came first wins.
        """
        given_up = await give_up_handover(
            self.database, **slot.fence, reason=reason, holds_lease=holds_lease
        )
        if given_up is None:
            return False
        event_log.slot_transition(
            given_up, old=SlotStatus.DEPLOYING, new=SlotStatus.RELEASING, reason=reason
        )
        self.metrics.hot_handover(slot.pool_name, accepted=False)
        self.wakeups.wake_reconcilers()
        return True

    async def fail_standby(
        self, slot: LeasedSlot | ObservedStandby, *, reason: str, holds_lease: bool = False
    ) -> bool:
        """Take the slot of a standby or a pull that failed to `error`, so that it is reset."""
        failed = mark_slot_error.statement(
            slot_id=slot.slot_id, version=slot.version, reason=reason, holds_lease=holds_lease
        )
        is_pull = slot.standby is Standby.PULLING
        counted = record_pull_failure.statement(run_id=slot.run_id, reason=reason)
        await self.database.commit([failed, counted] if is_pull else [failed])
        if failed.result is None:
            return False
        event_log.slot_transition(
            failed.result, old=SlotStatus.IDLE, new=SlotStatus.ERROR, reason=reason
        )
        self.wakeups.wake_reconcilers()
        return True

    async def fail(
        self,
        slot: FencedSlot,
        *,
        reason: str,
        failure_code: FailureCode = FailureCode.DEPLOY_FAILED,
        deployment_over: bool = False,
        nothing_started: bool = False,
        stuck: bool = False,
        infrastructure_fault: bool = False,
    ) -> bool:
        """Give up the deployment and start the slot's release; False if the slot has changed.

        The hand-over queues the bot again, or fails it with `failure_code`, once the stop is
        confirmed. `nothing_started` states that there is no container to stop. `stuck` states that
        the deployment made no progress: the slot's first reset creates its container again.
        After an `infrastructure_fault` the bot is retried without an attempt, and the slot needs no
        reset.
        """
        failed = await fail_deployment(
            self.database,
            **slot.fence,
            reason=reason,
            failure_code=failure_code,
            deployment_over=deployment_over,
            nothing_started=nothing_started,
            stuck=stuck,
            infrastructure_fault=infrastructure_fault,
        )
        if failed is None:
            return False
        event_log.slot_transition(
            failed, old=SlotStatus.DEPLOYING, new=SlotStatus.RELEASING, reason=reason
        )
        if failed.others_wait:
            await self.image_gate.open(failed.backend)
        self.wakeups.wake_reconcilers()
        return True
