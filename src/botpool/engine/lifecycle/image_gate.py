"""The image gate: one pull of an image per image host, and the backend's limit of starts.

N first starts of one image on one image host must pull once. One slot leads: a durable mark in its
row, unique by backend, image host and image. Where the image host is a cluster of nodes that each
pull for themselves, up to `concurrent_pulls` slots lead, so at most so many cold nodes pull before
the image is known in the cluster. The mark belongs to the slot and not to a lease, so
any replica continues with the same leader. The other slots wait without holding anything and pass
together when the leader's deployment has finished; when it fails, the next slot leads. Behind the
image gate, a backend with a limit of deployments starts as many slots as it has room for, in the
order of their assignment.

Which slots may pass is a query over committed state under the gate's lock. A crash before it, or a
second pass, changes nothing; a missed wake-up is repaired by the next poll.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from botpool.domain.ids import SlotId
from botpool.domain.states import SlotPhase
from botpool.engine.service import Service
from botpool.store.image_gate import (
    SlotPastImageGate,
    lock_gate,
    pass_image_gate,
    pass_start_gate,
)

_log = structlog.get_logger("botpool.pool")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageGate(Service):
    """Lets waiting slots pass."""

    async def open(self, backend: str) -> Mapping[SlotId, int]:
        """Let all slots pass that may; returns the slots that may start, with their new version."""
        if backend not in self.backends:
            return {}  # The replicas that have this backend open its gate.
        lock = lock_gate.statement(backend=backend)
        with_image = pass_image_gate.statement(
            backend=backend,
            image_known_s=self.policy.image_known_s,
            wait_timeout_s=self.policy.deploy_wait_timeout_s,
            concurrent_pulls=self.backends[backend].concurrent_pulls,
        )
        starting = pass_start_gate.statement(
            backend=backend, limit=self.backends[backend].concurrent_starts
        )
        await self.database.commit([lock, with_image, starting])
        for slot in with_image.result:
            self._report(slot)
        for started in starting.result:
            self.metrics.phase_passed(
                started.pool_name, SlotPhase.WAITING_FOR_START, after_s=started.waited_s
            )
        if starting.result:
            self.wakeups.slots_due()
        return {slot.slot_id: slot.version for slot in starting.result}

    def _report(self, slot: SlotPastImageGate) -> None:
        _log.info(
            "image.leads" if slot.leads else "image.known",
            slot=slot.slot_id,
            name=slot.slot_name,
            bot=slot.bot_id,
            image=slot.image,
            image_host=slot.image_host,
            correlation_id=slot.correlation_id,
        )
        self.metrics.phase_passed(
            slot.pool_name, SlotPhase.WAITING_FOR_IMAGE, after_s=slot.waited_s
        )
