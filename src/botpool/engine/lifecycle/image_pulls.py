"""Follows pulls by containers without a bot: those of rollouts, and those that standbys lead.

The container of a rollout's image is started once without a bot. The start passes the image gate
like every other, so the image is pulled once for each image host.
A container that runs, or that has run and exited, proves that the image is present. Then one
statement begins the canary and the stop of the container. The steps survive a crash like those of a
standby; a pull that fails is counted with the end of its run, in one transaction.

A standby may lead the pull of an image for which bots wait. They wait for the image and not for the
standby's agent: once its container has started, one statement ends the lead. After a crash before
it, the next observation or the agent's poll does the same.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

from botpool.domain import reasons
from botpool.domain.fenced_slots import ObservedSlot, ObservedStandby
from botpool.domain.observation import (
    ACTIVE_DEPLOYMENT,
    ENDED_STATES,
    ContainerState,
    DeploymentState,
    Observation,
)
from botpool.engine.lifecycle.deployment_outcome import SlotChanged
from botpool.engine.lifecycle.image_gate import ImageGate
from botpool.engine.observability import event_log
from botpool.engine.runtime.leases import timed
from botpool.engine.service import Service
from botpool.store.deployments import end_deployment
from botpool.store.rollouts import end_pull

_Slot = TypeVar("_Slot", ObservedSlot, ObservedStandby)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePulls(Service):
    """Applies observations to slots whose containers pull an image without a bot."""

    image_gate: ImageGate

    async def follow_deployment(
        self, slot: ObservedStandby, observation: Observation
    ) -> Observation:
        """Return the observation with the state of a deployment that is no longer listed."""
        if slot.deployment_id is None or observation.deployment is not None:
            return observation
        deployment_id, backend = slot.deployment_id, self.backends[slot.backend]
        state = await timed(
            lambda timeout_s: backend.deployment(
                slot.container_id, deployment_id, timeout_s=timeout_s
            ),
            self.policy.call_timeout_s,
        )
        return replace(observation, deployment=state)

    async def end(self, slot: ObservedStandby) -> None:
        """Begin the canary, because the image is present."""
        ended = await end_pull(self.database, slot_id=slot.slot_id, version=slot.version)
        if ended is None:
            return  # The slot has changed; the next observation decides.
        event_log.image_pulled(ended, pool=slot.pool_name, reason=reasons.ROLLOUT_IMAGE_PRESENT)
        if ended.others_wait:
            await self.image_gate.open(slot.backend)
        self.wakeups.wake_reconcilers()

    async def end_lead(self, slot: _Slot, observation: Observation) -> _Slot:
        """Let the slots start that wait for the image, if the observation shows it present.

        Returns the slot with its version; raises SlotChanged if the observation is late.
        """
        if not slot.leads or not is_pulled(slot, observation):
            return slot
        version = await end_deployment(self.database, **slot.fence)
        if version is None:
            raise SlotChanged
        await self.image_gate.open(slot.backend)
        return replace(slot, version=version, leads=False, deployment_ended_at=slot.now)


def is_pulled(slot: ObservedSlot | ObservedStandby, observation: Observation) -> bool:
    """Whether the container has been started, so that its image is on the image host."""
    if observation.deployment in ACTIVE_DEPLOYMENT:
        return False
    if observation.deployment is DeploymentState.FINISHED:
        return True
    # A status that does not name the run may be older than the start.
    names_run = observation.assignment_id == slot.run_id
    has_exited = observation.state in ENDED_STATES and observation.exit_code is not None
    return names_run and (observation.state is ContainerState.RUNNING or has_exited)
