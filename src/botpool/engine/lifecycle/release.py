"""The steps of a releasing slot: stop the container, confirm the stop, free the slot.

The first step sends the stop signal. A container that has ended by then is confirmed in the same
step. Otherwise the container has the pool's `stop_grace_s`: the slot waits as a row, without a
lease, until an observation confirms the stop or the next step kills the container. On a backend
with lag, the regular observation confirms every stop, because a call per slot would exhaust the
request budget.

No slot is handed over before its stop is confirmed. After a crash before, during or after the stop,
the slot is still `releasing` and the step is repeated: the container may get the signal twice.
Freeing the slot and assigning it to the next bot are one transaction (`slot_handover.py`).
"""

import math
from dataclasses import dataclass, field
from datetime import datetime

from botpool.backends.protocol import Backend, StopMode, run_keeper
from botpool.domain.errors import BackendError, ContainerGone, StillRunning
from botpool.domain.fenced_slots import LeasedSlot, ObservedSlot, ObservedStandby, expected_runs
from botpool.domain.ids import ContainerId
from botpool.domain.observation import (
    ACTIVE_DEPLOYMENT,
    OPEN_DEPLOYMENT,
    ContainerState,
    DeploymentState,
    Observation,
)
from botpool.domain.states import FINAL, SlotStatus, Standby
from botpool.domain.stop_confirmation import (
    is_unconfirmable,
    stop_is_confirmed,
    stop_is_overdue,
)
from botpool.engine.lifecycle.image_gate import ImageGate
from botpool.engine.lifecycle.output_keeper import OutputKeeper
from botpool.engine.lifecycle.slot_handover import SlotHandover
from botpool.engine.lifecycle.slot_steps import SlotSteps
from botpool.engine.lifecycle.unconfirmed_stops import UnconfirmedStops
from botpool.engine.observability import event_log
from botpool.engine.runtime.leases import Lease, timed
from botpool.engine.service import Service
from botpool.store.releases import clear_stop

_MAX_STOPS = 5
"""How many times the time for one stop all stops of a release may take."""


class _DoesNotStop(Exception):
    """A further stop does not help: the container must be deleted."""


class _CannotBeConfirmed(Exception):
    """Neither a further stop nor a deletion helps: the container's node does not answer."""

    def __init__(self, observation: Observation) -> None:
        self.observation = observation


@dataclass(slots=True)
class StopGrace:
    """The longest grace that this replica grants; a shutdown cannot wait for minutes."""

    limit_s: float = math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Releaser(Service):
    """Stops the containers of releasing slots and frees the slots."""

    steps: SlotSteps
    handover: SlotHandover
    image_gate: ImageGate
    output_keeper: OutputKeeper
    unconfirmed_stops: UnconfirmedStops
    stop_grace: StopGrace = field(default_factory=StopGrace)

    async def step(self, slot: LeasedSlot, lease: Lease) -> None:
        """Stop or delete the container, and free the slot if that is confirmed at once."""
        if slot.container_id is None or _never_started(slot):
            await self._free(slot)
            return
        backend = self.backends[slot.backend]
        is_first = slot.stop_issued_at is None and slot.delete_issued_at is None
        if backend.stop_removes_output and is_first:
            await self.output_keeper.keep(slot)
        try:
            if slot.delete_issued_at is None:
                state = await self._stop(backend, slot, slot.container_id, lease)
            else:
                state = await self._delete(backend, slot, slot.container_id, lease)
        except ContainerGone:
            state = ContainerState.GONE
        except _CannotBeConfirmed as unconfirmed:
            noted = await self.unconfirmed_stops.note(slot, unconfirmed.observation, overdue=True)
            if noted is None:
                await self.steps.abandon(slot, action="record the unconfirmed stop")
                return
            slot, state = noted, None
        except _DoesNotStop:
            # Committed before the deletion, so that no observation frees this container's slot.
            await self.steps.postpone(slot, delay_s=0, delete_issued=True)
            return
        except BackendError as error:
            event_log.backend_unavailable("release.unavailable", error, slot=slot.slot_id)
            await self.steps.postpone(slot, after=error)
            return
        if state is not None:
            await self._free(slot, container_gone=state is ContainerState.GONE)
        else:
            await self._await_confirmation(backend, slot)

    async def _await_confirmation(self, backend: Backend, slot: LeasedSlot) -> None:
        """Return the lease until an observation confirms the stop, or the stop is due again."""
        if backend.status_lag_s:
            # Repeated if the observations have not confirmed the stop when the lag is over.
            delay_s = backend.status_lag_s + self.policy.observe_interval_s + self._grace_s(slot)
            await self.steps.postpone(
                slot,
                delay_s=delay_s,
                stop_issued=True,
                stop_unreliable=_stop_is_unreliable(slot),
            )
        else:
            await self.steps.postpone(
                slot, delay_s=self._remaining_grace_s(slot) or None, stop_issued=True
            )

    async def apply(self, slot: ObservedSlot, observation: Observation) -> None:
        """Free a slot if an observation confirms its stop."""
        assert slot.stop_issued_at is not None, "only slots with an issued stop are observed"
        is_gone = observation.state is ContainerState.GONE
        if slot.delete_issued_at is not None and not is_gone:
            # The backend may still delete the container, so no other bot may get it.
            await self.unconfirmed_stops.note(slot, observation, overdue=True)
            return
        lag_s = self.backends[slot.backend].status_lag_s
        limit_s = lag_s + self.policy.stop_timeout_s + slot.stop_grace_s
        if stop_is_confirmed(
            observation,
            observed_running=slot.observed_running_at is not None,
            stop_issued_at=slot.stop_issued_at,
            status_unreliable_at=slot.status_unreliable_at,
            now=slot.now,
            status_lag_s=lag_s,
        ):
            await self._free(slot, container_gone=is_gone)
            return
        overdue = stop_is_overdue(stop_issued_at=slot.stop_issued_at, now=slot.now, limit_s=limit_s)
        noted = await self.unconfirmed_stops.note(slot, observation, overdue=overdue)
        if noted is not None and observation.deployment in ACTIVE_DEPLOYMENT:
            # The deployment may start the container after the stop: the stop is repeated.
            await clear_stop(self.database, **noted.fence, limit_s=_MAX_STOPS * limit_s)
            self.wakeups.wake_reconcilers()

    async def _stop(
        self, backend: Backend, slot: LeasedSlot, container_id: ContainerId, lease: Lease
    ) -> ContainerState | None:
        """Stop the container; returns its state once the stop is confirmed, else None."""
        limit_s = backend.status_lag_s + self.policy.stop_timeout_s + self._grace_s(slot)
        stopped_at = _reliable_stop(slot)
        overdue = stop_is_overdue(stop_issued_at=stopped_at, now=slot.now, limit_s=limit_s)
        through = slot.assignment_id or slot.run
        assert through is not None, "a releasing slot has a bot or a standby"
        try:
            mode = self._stop_mode(slot)
            # A backend that keeps runs stops them by their deletion: it is repeated.
            if mode is not None and (not overdue or run_keeper(backend) is not None):
                await lease.call(
                    lambda timeout_s: backend.stop(
                        container_id, through, mode=mode, timeout_s=timeout_s
                    )
                )
        except StillRunning:
            # The backend answers but does not cancel the deployment.
            if stop_is_overdue(stop_issued_at=slot.phase_at, now=slot.now, limit_s=limit_s):
                raise _DoesNotStop from None
            raise
        if backend.status_lag_s and not overdue:
            return None
        observation = await self._observe(backend, slot, container_id, lease)
        if stop_is_confirmed(
            observation,
            # An overdue stop on a backend with lag was issued longer ago than the lag.
            observed_running=slot.running_at is not None and not backend.status_lag_s,
            stop_issued_at=slot.stop_issued_at or slot.now,
            status_unreliable_at=slot.status_unreliable_at if backend.status_lag_s else None,
            now=slot.now,
            status_lag_s=backend.status_lag_s,
        ):
            return observation.state
        if is_unconfirmable(observation, overdue=overdue):
            raise _CannotBeConfirmed(observation)
        if overdue and run_keeper(backend) is None:
            raise _DoesNotStop
        return None

    def _grace_s(self, slot: LeasedSlot) -> float:
        """Return how long the container may take to stop by itself."""
        return min(slot.stop_grace_s, self.stop_grace.limit_s)

    def _remaining_grace_s(self, slot: LeasedSlot) -> float:
        """Return how long the container still has after the stop signal; 0 if it is over."""
        stopped_at = _reliable_stop(slot)
        elapsed_s = (slot.now - stopped_at).total_seconds() if stopped_at else 0.0
        return max(self._grace_s(slot) - elapsed_s, 0.0)

    def _stop_mode(self, slot: LeasedSlot) -> StopMode | None:
        """Return which stop to send now; None while the container has its grace."""
        if self._remaining_grace_s(slot) == 0:
            return StopMode.KILL
        return StopMode.ASK if _reliable_stop(slot) is None else None

    async def _delete(
        self, backend: Backend, slot: LeasedSlot, container_id: ContainerId, lease: Lease
    ) -> ContainerState | None:
        """Delete the container; returns GONE once the backend reports it, else None."""
        through = slot.assignment_id or slot.run
        assert through is not None, "a releasing slot has a bot or a standby"
        await lease.call(
            lambda timeout_s: backend.delete(
                container_id, stop_through=through, timeout_s=timeout_s
            )
        )
        observation = await self._observe(backend, slot, container_id, lease)
        if is_unconfirmable(observation, overdue=True):
            raise _CannotBeConfirmed(observation)
        return observation.state if observation.state is ContainerState.GONE else None

    async def _observe(
        self, backend: Backend, slot: LeasedSlot, container_id: ContainerId, lease: Lease
    ) -> Observation:
        expected = expected_runs([slot])
        observations = await lease.call(
            lambda timeout_s: backend.observe(
                [container_id], expected=expected, timeout_s=timeout_s
            )
        )
        return observations[container_id]

    async def _free(self, slot: LeasedSlot | ObservedSlot, *, container_gone: bool = False) -> None:
        """Free the slot and assign it to the next bot of the queue, in one transaction."""
        deployment = await self._last_status(slot)
        has_run = slot.start_issued_at is not None and not container_gone
        if has_run and not self.backends[slot.backend].status_lag_s:
            # The run has ended, and the next bot's has not begun: the output is complete.
            await self.output_keeper.keep(slot)
        if slot.standby is Standby.STOPPING and slot.bot_status not in FINAL:
            await self._end_standby(slot, container_gone=container_gone)
            return
        freed = await self.handover.free(slot, container_gone=container_gone)
        if freed is None:
            if isinstance(slot, LeasedSlot):
                await self.steps.abandon(slot, action="free")
            return
        self._discard_run(slot)
        if deployment is not None and slot.deployment_id is not None:
            event_log.deployment_status_changed(
                slot, slot.deployment_id, old=slot.deployment_status, new=deployment
            )
        if freed.others_wait:
            # The slot may have led a pull, or have counted towards the limit of starts.
            await self.image_gate.open(slot.backend)

    def _discard_run(self, slot: LeasedSlot | ObservedSlot | ObservedStandby) -> None:
        """Let a backend forget the run. Only now: the commit is the record of its end.

        After a crash in between, the cleanup finds the run, which no slot knows any more.
        """
        keeper, run = run_keeper(self.backends[slot.backend]), slot.expected_run
        if keeper is None or run is None or slot.container_id is None:
            return
        if run.deployment_id is not None:
            keeper.discard(slot.container_id, run.assignment_id, run.deployment_id)

    async def apply_to_standby(self, standby: ObservedStandby, observation: Observation) -> None:
        """End a standby if an observation confirms its stop."""
        assert standby.stop_issued_at is not None, "only standbys with an issued stop are observed"
        is_gone = observation.state is ContainerState.GONE
        if standby.delete_issued_at is not None and not is_gone:
            return
        if stop_is_confirmed(
            observation,
            observed_running=False,
            stop_issued_at=standby.stop_issued_at,
            status_unreliable_at=standby.status_unreliable_at,
            now=standby.now,
            status_lag_s=self.backends[standby.backend].status_lag_s,
        ) and await self.handover.end_standby(standby, container_gone=is_gone):
            self._discard_run(standby)

    async def _end_standby(self, slot: LeasedSlot | ObservedSlot, *, container_gone: bool) -> None:
        """After the stop of a standby: start its bot cold, or free the slot."""
        if slot.status is SlotStatus.IDLE:
            done = await self.handover.end_standby(slot, container_gone=container_gone)
        else:
            done = await self.handover.restart_cold(slot, container_gone=container_gone)
        if done:
            self._discard_run(slot)
        elif isinstance(slot, LeasedSlot):
            # The slot has changed, or its bot was cancelled: the next step frees the slot.
            await self.steps.abandon(slot, action="end standby")

    async def _last_status(self, slot: LeasedSlot | ObservedSlot) -> DeploymentState | None:
        """Return the status of a deployment that ended during the release; None if it is known.

        It is for the log only: without an answer of the backend, the log lacks this line.
        """
        deployment_id, container_id = slot.deployment_id, slot.container_id
        if deployment_id is None or container_id is None or slot.running_at is not None:
            return None
        if slot.deployment_status not in OPEN_DEPLOYMENT:
            return None
        backend = self.backends[slot.backend]
        try:
            status = await timed(
                lambda timeout_s: backend.deployment(
                    container_id, deployment_id, timeout_s=timeout_s
                ),
                self.policy.call_timeout_s,
            )
        except ContainerGone:
            return DeploymentState.LOST
        except BackendError as error:
            event_log.backend_unavailable("release.unavailable", error, slot=slot.slot_id)
            return None
        return status or DeploymentState.LOST


def _never_started(slot: LeasedSlot) -> bool:
    """Whether no start of this assignment was allowed, so that no container of it can run."""
    evidence = (slot.start_allowed_at, slot.start_issued_at, slot.running_at)
    return all(at is None for at in evidence)


def _reliable_stop(slot: LeasedSlot) -> datetime | None:
    """Return when the stop was issued; None if it has to be sent again."""
    return None if _stop_is_unreliable(slot) else slot.stop_issued_at


def _stop_is_unreliable(slot: LeasedSlot) -> bool:
    """Whether the backend's statuses were unreliable after the stop: it may not have arrived."""
    stopped_at, status_unreliable_at = slot.stop_issued_at, slot.status_unreliable_at
    return (
        stopped_at is not None
        and status_unreliable_at is not None
        and stopped_at <= status_unreliable_at
    )
