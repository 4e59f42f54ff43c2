"""The image that a pool's tag names now, so that a tag that is pushed again is a new image.

Some backends can resolve a tag to a digest. The slot then takes the image as `name:tag@digest`, and
the image gate lets one slot pull a new digest. A digest is resolved once in a while for all slots
of this replica. Without an answer of the registry, the last known digest stays.
"""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field, replace

from botpool.backends.protocol import ImageResolver
from botpool.domain.errors import BackendError
from botpool.domain.fenced_slots import LeasedSlot
from botpool.domain.states import SlotPhase
from botpool.engine.observability import event_log
from botpool.engine.runtime.clock import loop_time
from botpool.engine.runtime.leases import Lease
from botpool.engine.service import Service

_VALID_S = 300.0
_RETRY_S = 60.0
_TIMEOUT_S = 5.0


@dataclass(slots=True)
class _Resolved:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    image: str | None = None
    """The image with its digest; None before the first answer."""
    valid_until: float = 0.0


def with_known_digest(slot: LeasedSlot) -> LeasedSlot:
    """Return the slot with the digest that its container was created from, if its tag is the same.

    A deployment keeps this digest once the container exists.
    """
    if slot.created_image.startswith(f"{slot.image}@"):
        return replace(slot, image=slot.created_image)
    return slot


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageDigests(Service):
    """Resolves the tags of pools, where the backend can."""

    resolved: defaultdict[tuple[str, str], _Resolved] = field(
        default_factory=lambda: defaultdict(_Resolved)
    )

    async def resolve(self, slot: LeasedSlot, lease: Lease) -> LeasedSlot:
        """Return the slot with the image that its pool's tag names now, or that its phase fixed."""
        backend = self.backends[slot.backend]
        if "@" in slot.image:
            return slot
        if slot.phase not in (None, SlotPhase.CREATING) or not isinstance(backend, ImageResolver):
            return with_known_digest(slot)
        known = self.resolved[slot.backend, slot.image]
        # Concurrent deployments share one request.
        async with known.lock:
            if loop_time() >= known.valid_until:
                await self._refresh(known, backend, slot.image, lease)
        if known.image is None:
            return with_known_digest(slot)
        return replace(slot, image=known.image)

    async def _refresh(
        self, known: _Resolved, backend: ImageResolver, image: str, lease: Lease
    ) -> None:
        try:
            known.image = await lease.call(
                lambda timeout_s: backend.resolve_image(image, timeout_s=min(timeout_s, _TIMEOUT_S))
            )
            known.valid_until = loop_time() + _VALID_S
        except BackendError as error:
            event_log.backend_unavailable("image.unresolved", error, image=image)
            known.valid_until = loop_time() + _RETRY_S
