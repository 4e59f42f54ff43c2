"""The image gate: one pull of an image per image host, and the backend's limit of starts.

N first starts of one image on one image host must pull once. One slot leads: a durable mark in its
row, unique by backend, image host and image. The mark belongs to the slot and not to a lease, so
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

from botpool.backends.protocol import Backend
from botpool.domain.ids import SlotId
from botpool.domain.policy import Policy
from botpool.domain.states import SlotPhase
from botpool.engine.observability.metrics import Metrics
from botpool.engine.runtime.wakeups import Wakeups
from botpool.store.database import Database

_log = structlog.get_logger("botpool.pool")


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageGate:
    database: Database
    wakeups: Wakeups
    policy: Policy
    metrics: Metrics
    backends: Mapping[str, Backend]

    async def open(self, backend: str) -> Mapping[SlotId, int]:
        """Let through whoever may pass now; the slots that may start, with their new version."""
        if backend not in self.backends:
            return {}  # Not ours to start: the replicas that have it open its gate.
        _, led, started = await self.database.atomically(
            ("lock_gate", {"backend": backend}),
            (
                "pass_image_gate",
                {
                    "backend": backend,
                    "image_known_s": self.policy.image_known_s,
                    "wait_timeout_s": self.policy.deploy_wait_timeout_s,
                },
            ),
            (
                "pass_start_gate",
                {"backend": backend, "limit": self.backends[backend].concurrent_starts},
            ),
        )
        for row in led:
            _log.info(
                "image.leads" if row["leads"] else "image.known",
                slot=row["slot_id"],
                name=row["slot_name"],
                bot=row["bot_id"],
                image=row["image"],
                image_host=row["image_host"],
                correlation_id=row["correlation_id"],
            )
        for phase, passed in (
            (SlotPhase.WAITING_FOR_IMAGE, led),
            (SlotPhase.WAITING_FOR_START, started),
        ):
            for row in passed:
                self.metrics.phase_passed(row["pool_name"], phase, after_s=row["waited_s"])
        if started:
            self.wakeups.slots_due()
        return {row["slot_id"]: row["version"] for row in started}
