"""The image gate: one pull of an image per image host, and the backend's limit of starts.

N first starts of one image on one image host must pull once. One slot leads: a durable mark in its
row, unique by backend, image host and image. Where the image host is a cluster of nodes that each
pull for themselves, up to `concurrent_pulls` slots lead, so at most so many cold nodes pull at
once. There an image counts as known only while no more nodes lack it: `find_missing_images`
compares the nodes with the images that were started. The mark belongs to the slot and not to a
lease, so any replica continues with the same leader. The other slots wait without holding
anything and pass together when the leader's deployment has finished; when it fails, the next slot
leads. Behind the image gate, a backend with a limit of deployments starts as many slots as it has
room for, in the order of their assignment.

Which slots may pass is a query over committed state under the gate's lock. A crash before it, or a
second pass, changes nothing; a missed wake-up is repaired by the next poll.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import structlog

from botpool.backends.protocol import node_images
from botpool.domain.errors import BackendError
from botpool.domain.ids import SlotId
from botpool.domain.states import SlotPhase
from botpool.engine.observability import event_log
from botpool.engine.runtime.leases import timed
from botpool.engine.service import Service
from botpool.store.image_gate import (
    SlotPastImageGate,
    list_known_images,
    lock_gate,
    mark_missing_images,
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
            self.wakeups.wake_reconcilers()
        return {slot.slot_id: slot.version for slot in starting.result}

    async def find_missing_images(self, backend: str) -> None:
        """Observe which known images nodes of a cluster lack, and let slots pass accordingly.

        Without an answer the last observation stays.
        """
        nodes, image_host = node_images(self.backends[backend]), self.backends[backend].image_host
        if nodes is None:
            return
        known = await list_known_images(
            self.database,
            backend=backend,
            image_host=image_host,
            image_known_s=self.policy.image_known_s,
        )
        if not known:
            return
        images = frozenset(each.image for each in known)
        try:
            missing = await timed(
                lambda timeout_s: nodes.find_missing_images(images, timeout_s=timeout_s),
                self.policy.call_timeout_s,
            )
        except BackendError as error:
            event_log.backend_unavailable("image.nodes_unavailable", error, backend=backend)
            return
        if {each.image for each in known if each.is_missing} == set(missing):
            return
        await mark_missing_images(
            self.database, backend=backend, image_host=image_host, missing=sorted(missing)
        )
        _log.info("image.missing_on_nodes", backend=backend, images=sorted(missing))
        await self.open(backend)

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
