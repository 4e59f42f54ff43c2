"""What the backend's own page says of a slot: `[BUSY] Bot #7 - <time>`. Best effort, in order.

A description is due when the slot's state is not the one described last. Whoever leases it writes
the state as it was at the lease; the next one follows only when that write was answered, or can no
longer arrive. So an old text never comes over a newer one. Nothing else waits for this.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from botpool.backends.protocol import Backend
from botpool.domain.descriptions import description_of
from botpool.domain.errors import BackendError, ContainerGone
from botpool.domain.policy import Policy
from botpool.domain.states import SlotStatus
from botpool.engine.runtime.clock import loop_time
from botpool.engine.runtime.leases import Lease, LeaseTooShort
from botpool.store.database import Database

_log = structlog.get_logger()
_AT_ONCE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Describer:
    database: Database
    policy: Policy
    backends: Mapping[str, Backend]

    async def describe_due(self) -> None:
        described = sorted(name for name, each in self.backends.items() if each.has_descriptions)
        if not described:
            return
        taken_at = loop_time()
        rows = await self.database.fetch(
            "lease_descriptions",
            {
                "backends": described,
                "limit": _AT_ONCE,
                "hold_s": self.policy.describe_hold_s,
            },
        )
        # Side by side, and under a lease: each must be over before its hold is.
        lease = Lease(
            taken_at=taken_at,
            lease_s=self.policy.describe_hold_s,
            call_timeout_s=self.policy.call_timeout_s,
        )
        await asyncio.gather(*(self._describe(row, lease) for row in rows))

    async def _describe(self, row: Mapping[str, Any], lease: Lease) -> None:
        text = description_of(
            SlotStatus(row["status"]),
            bot_id=row["bot_id"],
            at=row["phase_at"] or row["created_at"],
            last_used_at=row["last_used_at"] or row["created_at"],
            problem=row["error_message"],
        )
        backend = self.backends[row["backend"]]
        try:
            with structlog.contextvars.bound_contextvars(correlation_id=row["correlation_id"]):
                await lease.call(
                    lambda timeout_s: backend.describe(
                        row["container_id"], text, timeout_s=timeout_s
                    )
                )
        except ContainerGone:
            pass  # Nothing to describe: its next container gets a state of its own.
        except (BackendError, LeaseTooShort) as error:
            # Dropped for now: it is due again when its hold has passed.
            _log.info("describe.dropped", slot=row["slot_id"], problem=str(error))
            return
        await self.database.fetch(
            "record_description",
            {"slot_id": row["slot_id"], "state": row["state"], "hold_until": row["hold_until"]},
        )
