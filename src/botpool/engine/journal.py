"""Log lines for what happened to slots and bots. Written after the commit, never before."""

from collections.abc import Mapping
from typing import Any

import structlog

from botpool.domain.ids import ContainerId
from botpool.domain.records import LeasedSlot
from botpool.domain.states import SlotStatus

_log = structlog.get_logger("botpool.pool")


def slot_moved(
    row: Mapping[str, Any],
    *,
    old: SlotStatus | None,
    new: SlotStatus | None,
    reason: str,
    **context: object,
) -> None:
    """`row` is what the statement that made the move returned."""
    _log.info(
        "slot.transition",
        slot=row["slot_id"],
        name=row["slot_name"],
        container=row.get("container_id"),
        old=str(old) if old else None,
        new=str(new) if new else None,
        bot=row.get("bot_id"),
        correlation_id=row.get("correlation_id"),
        reason=reason,
        **context,
    )


def fence_held(*, name: str, slot_id: int, wanted: str) -> None:
    """A write came too late: somebody else owns the slot's state by now. Nothing was changed."""
    _log.info("slot.fenced", slot=slot_id, name=name, wanted=wanted)


def container_remade(slot: LeasedSlot, made: ContainerId) -> None:
    """A container was deleted behind our back, and made again under the same slot."""
    _log.warning(
        "slot.container_remade",
        slot=slot.slot_id,
        name=slot.slot_name,
        old=slot.container_id,
        new=made,
        bot=slot.bot_id,
        attempt=slot.attempts,
        correlation_id=slot.correlation_id,
    )
