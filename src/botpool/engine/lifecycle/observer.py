"""Observes the containers that should run or should have stopped, and applies the observations.

One list call serves a whole backend; it is leased, so that replicas do not multiply it. The slots
are read before the call, and an observation is written only while the version read then is current.
So an observation counts only if its call began after the current phase was committed. A repeated or
late observation changes nothing.
"""

import asyncio
import math
from collections.abc import Awaitable
from dataclasses import dataclass, field, replace

import structlog

from botpool.backends.protocol import node_images
from botpool.domain import reasons
from botpool.domain.communication import Outcome
from botpool.domain.errors import BackendError
from botpool.domain.fenced_slots import ObservedSlot, ObservedStandby, expected_runs
from botpool.domain.ids import ContainerId
from botpool.domain.observation import (
    ACTIVE_DEPLOYMENT,
    ENDED_STATES,
    FAILED_DEPLOYMENT,
    ContainerState,
    DeploymentState,
    Observation,
)
from botpool.domain.start_assessment import (
    StartVerdict,
    assess_start,
    has_exited,
    is_of_later_assignment,
)
from botpool.domain.states import SlotPhase, SlotStatus, Standby
from botpool.engine.lifecycle.deployment_outcome import DeploymentOutcome, SlotChanged
from botpool.engine.lifecycle.exited_runs import ExitedRuns
from botpool.engine.lifecycle.image_pulls import ImagePulls, is_pulled
from botpool.engine.lifecycle.last_output import LastOutput
from botpool.engine.lifecycle.release import Releaser
from botpool.engine.observability import event_log
from botpool.engine.runtime.epoch_watch import EpochWatch
from botpool.engine.runtime.leases import timed, timed_pages
from botpool.engine.service import Service
from botpool.store.observations import (
    lease_observations,
    list_observed_slots,
    mark_status_unreliable,
    record_observed_running,
)
from botpool.store.standbys import list_observed_standbys

_LEASE_SHARE = 0.8
"""The share of the interval that a lease lasts, so that the same replica takes the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observer(Service):
    """Observes containers and applies the observations to their slots."""

    exited_runs: ExitedRuns
    outcome: DeploymentOutcome
    releaser: Releaser
    epoch_watch: EpochWatch
    last_output: LastOutput
    image_pulls: ImagePulls
    changed: set[ContainerId] = field(default_factory=set)
    """Containers that changed when no slot was to be observed: a start may not be recorded yet."""

    async def observe_due_backends(self) -> None:
        """Observe the backends whose turn this replica gets."""
        interval_s = self.policy.observe_interval_s * _LEASE_SHARE
        leased = await lease_observations(
            self.database,
            interval_s=interval_s,
            backends=sorted(self.backends),
            clusters=[name for name, each in self.backends.items() if node_images(each)],
        )
        for backend in leased:
            await self.observe(backend)
            await self.outcome.image_gate.find_missing_images(backend)

    async def observe_change(self, backend: str, container_id: ContainerId) -> bool:
        """Observe a container that changed; returns False if it should be observed again."""
        # Before the slots are read: see `observe_change_during_start`.
        self.changed.add(container_id)
        return await self.observe(backend, container_id=container_id)

    async def observe_change_during_start(self, backend: str, container_id: ContainerId) -> None:
        """After a start was recorded, observe a container that changed before the record.

        A change that is announced later finds the recorded start.
        """
        if container_id in self.changed:
            await self.observe(backend, container_id=container_id)

    async def observe(self, backend: str, *, container_id: ContainerId | None = None) -> bool:
        """Observe the containers of a backend, or one of them, and apply the observations.

        Returns False if the backend did not answer, or if a slot changed during the observation.
        """
        slots = await list_observed_slots(self.database, backend=backend, container_id=container_id)
        standbys = await list_observed_standbys(
            self.database, backend=backend, container_id=container_id
        )
        if not slots and not standbys:
            return True
        wanted = [slot.container_id for slot in slots]
        wanted += [standby.container_id for standby in standbys]
        expected = expected_runs([*slots, *standbys])
        try:
            observations = await timed_pages(
                lambda timeout_s: self.backends[backend].observe(
                    wanted, expected=expected, timeout_s=timeout_s
                ),
                self.policy.call_timeout_s,
            )
        except BackendError as error:
            # No evidence: every slot stays as it is until the backend answers.
            event_log.backend_unavailable("observation.unavailable", error, backend=backend)
            return False
        if any(each.status_unreliable for each in observations.values()):
            await mark_status_unreliable(self.database, backend=backend)
        is_announced = container_id is not None
        applied, ended = list[bool](), list[Awaitable[bool]]()
        for slot in slots:
            if (observation := observations.get(slot.container_id)) is None:
                continue
            application = self.apply(slot, observation, is_announced=is_announced)
            if observation.state in ENDED_STATES:
                # Reads the output, for seconds if the backend is slow: no slot waits for another's.
                ended.append(application)
            else:
                applied.append(await application)
        applied += await asyncio.gather(*ended)
        for standby in standbys:
            if standby.container_id in observations:
                await self._apply_to_standby(standby, observations[standby.container_id])
        self.changed.difference_update(wanted)
        return all(applied)

    async def apply(
        self, slot: ObservedSlot, observation: Observation, *, is_announced: bool = False
    ) -> bool:
        """Apply one observation to its slot; returns False if the slot has changed meanwhile.

        `is_announced`: the backend announced a change of the container.
        """
        with structlog.contextvars.bound_contextvars(correlation_id=slot.correlation_id):
            if is_of_later_assignment(observation, slot.assignment_id):
                await self._stop_lost_run(slot, observation)
            match slot.status:
                case SlotStatus.BUSY:
                    return await self._apply_to_busy(slot, observation)
                case SlotStatus.RELEASING:
                    await self.releaser.apply(slot, observation)
                    return True
                case _:
                    return await self._apply_to_starting(
                        slot, observation, is_announced=is_announced
                    )

    async def _stop_lost_run(self, slot: ObservedSlot, observation: Observation) -> None:
        """Stop a run whose assignment the database lost in a restore, and nothing else.

        A known assignment means that the slot has changed since it was read.
        """
        lost, backend = observation.assignment_id, self.backends[slot.backend]
        assert lost is not None
        if observation.state in ENDED_STATES:
            return
        if not await self.epoch_watch.report_if_unknown(lost, slot.slot_id):
            return
        try:
            await timed(
                lambda timeout_s: backend.stop(slot.container_id, lost, timeout_s=timeout_s),
                self.policy.call_timeout_s,
            )
        except BackendError as error:
            event_log.backend_unavailable("observation.unavailable", error, slot=slot.slot_id)

    async def _apply_to_standby(self, standby: ObservedStandby, observation: Observation) -> None:
        """Reset the slot of a standby that ended; only its agent's poll makes it ready."""
        if standby.standby is Standby.STOPPING:
            await self.releaser.apply_to_standby(standby, observation)
            return
        started_at = standby.start_issued_at
        assert started_at is not None, "only started standbys are observed"
        is_pull = standby.standby is Standby.PULLING
        if is_pull or standby.leads:
            try:
                observation = await self.image_pulls.follow_deployment(standby, observation)
                if is_pull and is_pulled(standby, observation):
                    await self.image_pulls.end(standby)
                    return
                standby = await self.image_pulls.end_lead(standby, observation)
            except BackendError as error:
                event_log.backend_unavailable(
                    "observation.unavailable", error, slot=standby.slot_id
                )
                return
            except SlotChanged:
                return  # The next observation decides.
        names_run = observation.assignment_id == standby.run_id
        if standby.standby is Standby.READY and not names_run:
            return  # The open poll is better evidence than a status that may be old.
        assessment = assess_start(
            observation,
            assignment_id=standby.run_id,
            started_at=started_at,
            awaits_deployment=standby.deployment_id is not None,
            deployment_ended_at=standby.deployment_ended_at,
            now=standby.now,
            grace_s=self.policy.deploy_grace_s,
            timeout_s=math.inf,
        )
        if assessment.verdict is StartVerdict.FAILED:
            await self.outcome.fail_standby(standby, reason=assessment.reason)

    async def _apply_to_busy(self, slot: ObservedSlot, observation: Observation) -> bool:
        lag_s = self.backends[slot.backend].status_lag_s
        is_running = observation.state is ContainerState.RUNNING
        if is_running and lag_s and slot.observed_running_at is None:
            await record_observed_running(self.database, assignment_id=slot.assignment_id)
        if not has_exited(
            observation,
            assignment_id=slot.run_id,
            running_at=slot.running_at,
            status_unreliable_at=slot.status_unreliable_at,
            last_heartbeat_at=slot.last_heartbeat_at,
            now=slot.now,
            status_lag_s=lag_s,
            heartbeat_s=self.policy.heartbeat_interval_ms / 1000,
        ):
            return True
        output = await self.last_output.read(slot, observation)
        return await self.exited_runs.end(slot, observation, output=output)

    async def _apply_to_starting(
        self, slot: ObservedSlot, observation: Observation, *, is_announced: bool
    ) -> bool:
        started_at = slot.start_issued_at
        assert started_at is not None, "only started slots are observed"
        try:
            slot, observation = await self._follow_deployment(slot, observation)
        except SlotChanged:
            return False
        except BackendError as error:
            event_log.backend_unavailable("observation.unavailable", error, slot=slot.slot_id)
            return False
        if slot.phase is not SlotPhase.HANDING_OVER and _has_run(slot, observation):
            await self.outcome.mark_running(
                slot.assignment_id, version=slot.version, reason=reasons.OBSERVED_EXITED
            )
            # Now the exit of a busy slot, which the next observation applies.
            return await self.observe(slot.backend, container_id=slot.container_id)
        if slot.phase is SlotPhase.HANDING_OVER:
            return await self._apply_to_handover(slot, observation)
        assessment = assess_start(
            observation,
            assignment_id=slot.assignment_id,
            started_at=started_at,
            awaits_deployment=slot.deployment_id is not None,
            deployment_ended_at=slot.deployment_ended_at,
            now=slot.now,
            grace_s=self.policy.deploy_grace_s,
            timeout_s=self.policy.deploy_timeout_s,
        )
        if assessment.verdict is StartVerdict.RUNNING:
            # The announcement of a start comes within milliseconds. A container that exits before
            # its agent calls is a failed deployment, which is retried, however short it ran.
            if is_announced and slot.needs_heartbeats:
                return True
            return await self.outcome.mark_running(
                slot.assignment_id, version=slot.version, reason=reasons.OBSERVED_RUNNING
            )
        if assessment.verdict is StartVerdict.FAILED:
            is_over = observation.deployment in FAILED_DEPLOYMENT
            return await self.outcome.fail(
                slot,
                reason=assessment.reason,
                deployment_over=is_over,
                stuck=assessment.is_stuck,
                infrastructure_fault=assessment.is_infrastructure_fault,
            )
        return True

    async def _apply_to_handover(self, slot: ObservedSlot, observation: Observation) -> bool:
        """Give up the hand-over to a standby that ended; a running one proves only its image."""
        started_at = slot.start_issued_at
        assert started_at is not None
        try:
            slot = await self.image_pulls.end_lead(slot, observation)
        except SlotChanged:
            return False
        assessment = assess_start(
            observation,
            assignment_id=slot.run_id,
            started_at=started_at,
            awaits_deployment=slot.deployment_id is not None,
            deployment_ended_at=slot.deployment_ended_at,
            now=slot.now,
            grace_s=self.policy.deploy_grace_s,
            timeout_s=math.inf,
        )
        if assessment.verdict is not StartVerdict.FAILED:
            return True
        return await self.outcome.give_up_handover(slot, reason=assessment.reason)

    async def _follow_deployment(
        self, slot: ObservedSlot, observation: Observation
    ) -> tuple[ObservedSlot, Observation]:
        """Record the deployment's status; query a deployment that the backend no longer lists."""
        if slot.deployment_id is not None and observation.deployment is not None:
            slot = await self.outcome.record_status(slot, observation.deployment)
        if not _deployment_may_be_over(slot, observation):
            return slot, observation
        deployment_id, backend = slot.deployment_id, self.backends[slot.backend]
        assert deployment_id is not None
        state = await timed(
            lambda timeout_s: backend.deployment(
                slot.container_id, deployment_id, timeout_s=timeout_s
            ),
            self.policy.call_timeout_s,
        )
        slot = await self.outcome.record_status(slot, state or DeploymentState.LOST)
        return slot, replace(observation, deployment=state)


def _has_run(slot: ObservedSlot, observation: Observation) -> bool:
    """Whether the exit code decides about a bot whose program has ended before it was observed."""
    return (
        slot.outcome is Outcome.EXIT_CODE
        and observation.assignment_id == slot.run_id
        and observation.state in ENDED_STATES
        and observation.exit_code is not None
        and not observation.infrastructure_fault
    )


def _deployment_may_be_over(slot: ObservedSlot, observation: Observation) -> bool:
    """Whether to query a deployment: it is no longer listed, and its end is not yet known."""
    return (
        slot.deployment_id is not None
        and slot.deployment_ended_at is None
        and observation.deployment not in ACTIVE_DEPLOYMENT
        and observation.state is not ContainerState.RUNNING
    )
