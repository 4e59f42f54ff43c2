"""The steps of a deploying slot: ensure the container, pass the image gate, issue the start.

Another replica continues after a crash:

- before the container is created: phase `creating`; it repeats the step;
- after that, before the commit: the slot has no id; it finds the container by name and adopts it;
- at the gate: a waiting phase; the poll of any replica opens the gate;
- before the start: phase `starting`, not issued; it issues the start, which a backend may first
  have to prepare (`_prepare_start`);
- after that, before the commit: it issues the start again; a backend runs an assignment only once;
- after the commit: the observations, the agent's call or the deadline decide.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

from botpool.backends.protocol import StartPreparer, StartRequest, start_preparer
from botpool.domain import reasons
from botpool.domain.errors import (
    BackendRefused,
    BackendUnavailable,
    CallSuperseded,
    ContainerGone,
)
from botpool.domain.fenced_slots import LeasedSlot
from botpool.domain.ids import ContainerId
from botpool.domain.observation import DeploymentState
from botpool.domain.states import FailureCode, SlotPhase, Standby
from botpool.engine.lifecycle.container_environment import ContainerEnvironment
from botpool.engine.lifecycle.deployment_outcome import DeploymentOutcome
from botpool.engine.lifecycle.image_digests import ImageDigests
from botpool.engine.lifecycle.image_gate import ImageGate
from botpool.engine.lifecycle.observer import Observer
from botpool.engine.lifecycle.revision_choice import RevisionChoice
from botpool.engine.lifecycle.slot_steps import SlotSteps, container_spec, ended_assignments
from botpool.engine.observability import event_log
from botpool.engine.runtime.clock import loop_time
from botpool.engine.runtime.leases import Lease
from botpool.engine.service import Service
from botpool.store.deployments import (
    record_container,
    record_prepared_start,
    record_start,
)

_WAITING = frozenset({SlotPhase.WAITING_FOR_IMAGE, SlotPhase.WAITING_FOR_START})


_STARTABLE = frozenset({SlotPhase.STARTING, SlotPhase.HANDING_OVER})
"""Phases in which the start is allowed; a bot may get a standby before its start is issued."""


class _SlotChanged(Exception):
    """A fenced write found another version: this step no longer owns the slot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployer(Service):
    """Takes deploying slots to a started container."""

    steps: SlotSteps
    outcome: DeploymentOutcome
    observer: Observer
    image_gate: ImageGate
    image_digests: ImageDigests
    revision_choice: RevisionChoice
    environment: ContainerEnvironment
    on_refusal: Callable[[str], None]
    """Receives the name of a backend that refused a call: its health check is due."""

    async def step(self, slot: LeasedSlot, lease: Lease) -> None:
        """Take the slot's next step."""
        if slot.standby is not None and slot.start_issued_at is not None:
            await self._give_up(slot, self._standby_problem(slot))
        elif slot.start_issued_at is not None:
            await self._check_deadline(slot)
        elif slot.phase in _WAITING:
            await self._end_waiting(slot)
        else:
            slot = await self.revision_choice.choose(slot)
            await self._deploy(await self.image_digests.resolve(slot, lease), lease)

    async def handle_unexpected_error(self, slot: LeasedSlot, error: Exception) -> None:
        """Repeat a step that failed with an unforeseen error, or give up after the wait limit."""
        if self._wait_is_over(slot):
            await self._give_up(
                slot, reasons.unexpected_error(error), failure_code=FailureCode.INTERNAL
            )
        else:
            await self.steps.postpone(slot)

    async def _deploy(self, slot: LeasedSlot, lease: Lease) -> None:
        gone: ContainerGone | None = None
        # If an earlier step was allowed to start, it may already have sent the start.
        is_first = slot.start_allowed_at is None
        while True:
            try:
                if slot.phase not in _STARTABLE or gone:
                    slot = await self._prepare(slot, lease, gone=gone)
                if slot.phase in _STARTABLE:
                    await self._issue_start(slot, lease)
                else:
                    await self.steps.return_lease(slot)
            except ContainerGone as error:
                if gone is None and slot.phase is not SlotPhase.HANDING_OVER:
                    gone = error
                    continue
                await self._give_up(slot, str(error))
            except _SlotChanged:
                await self.steps.abandon(slot, action="deploy")
            except BackendRefused as error:
                self.on_refusal(slot.backend)
                await self._give_up(slot, str(error), nothing_started=is_first)
            except CallSuperseded as error:
                await self._give_up(slot, str(error))
            except BackendUnavailable as error:
                await self._wait(slot, error)
            return

    async def _prepare(
        self, slot: LeasedSlot, lease: Lease, *, gone: ContainerGone | None
    ) -> LeasedSlot:
        """Ensure that the container exists, and try to pass the image gate."""
        if slot.container_id is not None and slot.matches_pool and gone is None:
            reason = reasons.CONTAINER_EXISTS
            slot = await self._record(slot, lease, slot.container_id, reason=reason)
        else:
            backend = self.backends[slot.backend]
            container_id = await lease.call(
                lambda timeout_s: backend.ensure(
                    container_spec(slot), stop_through=ended_assignments(slot), timeout_s=timeout_s
                )
            )
            is_new = gone is not None or slot.gone_container_id is not None
            reason = reasons.CONTAINER_RECREATED if is_new else reasons.CONTAINER_CREATED
            slot = await self._record(slot, lease, container_id, reason=reason, gone=gone)
        if slot.phase in _WAITING:
            passed = await self.image_gate.open(slot.backend)
            if slot.slot_id in passed:
                return replace(slot, phase=SlotPhase.STARTING, version=passed[slot.slot_id])
        return slot

    async def _record(
        self,
        slot: LeasedSlot,
        lease: Lease,
        container_id: ContainerId,
        *,
        reason: str,
        gone: ContainerGone | None = None,
    ) -> LeasedSlot:
        taken_at = loop_time()
        policy, backend = self.policy, self.backends[slot.backend]
        recorded = await record_container(
            self.database,
            **slot.fence,
            container_id=container_id,
            image_host=backend.image_host,
            image=slot.image,
            limits=slot.limits,
            image_known_s=policy.image_known_s,
            starts_limited=backend.concurrent_starts is not None or slot.is_paced,
            wait_timeout_s=policy.deploy_wait_timeout_s,
            lease_s=policy.lease_s,
            reason=reason,
        )
        if recorded is None:
            raise _SlotChanged
        lease.renewed(taken_at=taken_at, lease_s=policy.lease_s)
        former_id = recorded.former_id
        if gone or recorded.was_gone or former_id not in (None, container_id):
            event_log.container_recreated(slot, old_id=former_id, new_id=container_id)
        if recorded.from_phase is not recorded.phase:
            self.metrics.phase_passed(
                slot.pool_name, recorded.from_phase, after_s=recorded.from_phase_s
            )
        return replace(
            slot,
            container_id=container_id,
            gone_container_id=None,
            created_image=slot.image,
            created_limits=slot.limits,
            phase=recorded.phase,
            version=recorded.version,
            lease_until=recorded.lease_until,
        )

    async def _issue_start(self, slot: LeasedSlot, lease: Lease) -> None:
        assert slot.container_id is not None
        assert slot.run is not None
        program = self.environment.of(slot, slot.container_id)
        request = StartRequest(
            container_id=slot.container_id,
            assignment_id=slot.run,
            correlation_id=slot.correlation_id or "",
            environment=program.environment,
            command=program.command,
            entrypoint=program.entrypoint,
            has_bot=slot.bot_id is not None,
        )
        backend = self.backends[slot.backend]
        self.observer.changed.discard(slot.container_id)  # Those were changes of the former run.
        if (preparer := start_preparer(backend)) is not None:
            slot = await self._prepare_start(preparer, slot, request, lease)
            request = replace(request, deployment_id=slot.deployment_id)
        deployment_id = await lease.call(
            lambda timeout_s: backend.start(request, timeout_s=timeout_s)
        )
        timeout_s = self.policy.deploy_timeout_s
        version = await record_start(
            self.database, **slot.fence, deployment_id=deployment_id, timeout_s=timeout_s
        )
        if version is None:
            raise _SlotChanged
        if deployment_id is not None:
            event_log.deployment_status_changed(
                slot, deployment_id, old=None, new=DeploymentState.ISSUED
            )
        await self.observer.observe_change_during_start(slot.backend, request.container_id)

    async def _prepare_start(
        self, backend: StartPreparer, slot: LeasedSlot, request: StartRequest, lease: Lease
    ) -> LeasedSlot:
        """Record what the backend prepared, before the start: only the slot's owner starts it.

        After a crash before the record, the next owner prepares again and finds the same. A late
        record fails, and what its replica prepared is never started.
        """
        if slot.deployment_id is not None:
            return slot
        spec = container_spec(slot)
        deployment_id = await lease.call(
            lambda timeout_s: backend.prepare(spec, request, timeout_s=timeout_s)
        )
        taken_at, lease_s = loop_time(), self.policy.lease_s
        prepared = await record_prepared_start(
            self.database, **slot.fence, deployment_id=deployment_id, lease_s=lease_s
        )
        if prepared is None:
            raise _SlotChanged
        lease.renewed(taken_at=taken_at, lease_s=lease_s)
        return replace(
            slot,
            deployment_id=deployment_id,
            version=prepared.version,
            lease_until=prepared.lease_until,
        )

    def _standby_problem(self, slot: LeasedSlot) -> str:
        """Say why a standby is given up: the time of its hand-over or of its poll is over."""
        if slot.phase is SlotPhase.HANDING_OVER and slot.run_started_at is not None:
            return reasons.NOT_ACCEPTED
        if slot.standby is Standby.PULLING:
            return reasons.pull_too_slow(self.policy.deploy_timeout_s)
        return reasons.STANDBY_SILENT

    async def _check_deadline(self, slot: LeasedSlot) -> None:
        """Let a last observation decide about a start whose timeout has passed."""
        await self.observer.observe(slot.backend, container_id=slot.container_id)
        # A backend that does not answer gives no evidence: the slot is still deploying.
        await self.steps.postpone(slot)

    async def _end_waiting(self, slot: LeasedSlot) -> None:
        """Give up a slot at the image gate; it is due only when its time there is over."""
        assert slot.phase is not None
        limit_s = self.policy.deploy_wait_timeout_s
        await self._give_up(slot, reasons.waited_too_long(slot.phase, limit_s))

    async def _wait(self, slot: LeasedSlot, error: BackendUnavailable) -> None:
        event_log.backend_unavailable("deploy.unavailable", error, slot=slot.slot_id)
        if self._wait_is_over(slot):
            await self._give_up(slot, str(error))
        else:
            await self.steps.postpone(slot, after=error)

    def _wait_is_over(self, slot: LeasedSlot) -> bool:
        assert slot.phase_at is not None
        limit = timedelta(seconds=self.policy.deploy_wait_timeout_s)
        return slot.now - slot.phase_at >= limit

    async def _give_up(
        self,
        slot: LeasedSlot,
        reason: str,
        *,
        failure_code: FailureCode = FailureCode.DEPLOY_FAILED,
        nothing_started: bool = False,
    ) -> None:
        reason = self.environment.mask(slot.pool_name, reason)
        if slot.phase is SlotPhase.HANDING_OVER:
            is_done = await self.outcome.give_up_handover(slot, reason=reason, holds_lease=True)
        elif slot.standby is not None:
            is_done = await self.outcome.fail_standby(slot, reason=reason, holds_lease=True)
        else:
            is_done = await self.outcome.fail(
                slot, reason=reason, failure_code=failure_code, nothing_started=nothing_started
            )
        if not is_done:
            await self.steps.abandon(slot, action="fail the deployment")
