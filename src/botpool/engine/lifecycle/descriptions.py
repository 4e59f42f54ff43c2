"""Writes the descriptions that a backend shows for its slots: `[BUSY] Bot #7 - <time>`.

A description is due when the slot's state differs from the state described last. A replica leases
the slot, writes the state as of the lease, and the next write follows only when this one was
answered or can no longer arrive. So an old text never replaces a newer one. Writing is best effort,
and no other work waits for it.

A release hands the slot over in its own transaction. The describer then writes `[IDLE]` and the
next bot one after the other, as the order of a release asks for. It leaves `[IDLE]` out while as
many descriptions are due as it writes at a time.
"""

import asyncio
from dataclasses import dataclass

import structlog

from botpool.domain.descriptions import description_of
from botpool.domain.errors import BackendError, ContainerGone
from botpool.domain.states import SlotStatus
from botpool.engine.runtime.clock import loop_time
from botpool.engine.runtime.leases import Lease, LeaseTooShort
from botpool.engine.service import Service
from botpool.store.descriptions import LeasedDescription, lease_descriptions, record_description

_log = structlog.get_logger()
_MAX_WRITES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Describer(Service):
    """Keeps descriptions up to date."""

    async def describe_due(self) -> None:
        """Write the descriptions that are out of date, several at the same time."""
        described = sorted(name for name, each in self.backends.items() if each.has_descriptions)
        if not described:
            return
        taken_at = loop_time()
        hold_s = self.policy.describe_hold_s
        descriptions = await lease_descriptions(
            self.database, backends=described, limit=_MAX_WRITES, hold_s=hold_s
        )
        lease = Lease(taken_at=taken_at, lease_s=hold_s, call_timeout_s=self.policy.call_timeout_s)
        is_busy = len(descriptions) == _MAX_WRITES
        await asyncio.gather(
            *(self._describe(each, lease, skip_idle=is_busy) for each in descriptions)
        )

    async def _describe(self, slot: LeasedDescription, lease: Lease, *, skip_idle: bool) -> None:
        """Write the slot's description; after a hand-over `[IDLE]` first, unless `skip_idle`."""
        texts = [_text(slot, slot.status)]
        if slot.handed_over and not skip_idle:
            texts.insert(0, _text(slot, SlotStatus.IDLE))
        try:
            with structlog.contextvars.bound_contextvars(correlation_id=slot.correlation_id):
                for text in texts:
                    await self._write(slot, text, lease)
        except ContainerGone:
            pass  # The slot's next container gets its own description.
        except (BackendError, LeaseTooShort) as error:
            # The description is due again when its lease has ended.
            _log.info("describe.dropped", slot=slot.slot_id, problem=str(error))
            return
        await record_description(
            self.database,
            slot_id=slot.slot_id,
            state=slot.state,
            released_at=slot.last_released_at,
            hold_until=slot.hold_until,
        )

    async def _write(self, slot: LeasedDescription, text: str, lease: Lease) -> None:
        backend = self.backends[slot.backend]
        await lease.call(
            lambda timeout_s: backend.describe(slot.container_id, text, timeout_s=timeout_s)
        )


def _text(slot: LeasedDescription, status: SlotStatus) -> str:
    used_at = [at for at in (slot.last_used_at, slot.last_released_at) if at is not None]
    if slot.handed_over and slot.last_released_at is not None:
        used_at = [slot.last_released_at]
    return description_of(
        status,
        bot_id=slot.bot_id,
        at=slot.phase_at or slot.created_at,
        last_used_at=max(used_at, default=slot.created_at),
        problem=slot.error_message,
        problem_at=slot.error_at,
    )
