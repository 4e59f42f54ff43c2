"""Statements about leases of slots and the time of their next step."""

from collections.abc import Sequence
from datetime import datetime
from typing import Unpack

from botpool.domain.fenced_slots import Fence, LeasedSlot
from botpool.domain.ids import SlotId
from botpool.store.query import query


@query
def lease_slots(
    *, owner: str, lease_s: float, limit: int, backends: Sequence[str]
) -> list[LeasedSlot]:
    """Lease slots whose next step is due."""


@query
def postpone_step(
    *,
    delay_s: float,
    problem: str | None = None,
    stop_issued: bool = False,
    stop_unreliable: bool = False,
    delete_issued: bool = False,
    **fence: Unpack[Fence],
) -> int | None:
    """Return the lease and make the slot's next step due later; returns the slot's version.

    `stop_unreliable` replaces the time of an earlier stop that the backend may not have executed.
    """


@query
def return_lease(*, slot_id: SlotId, owner: str, lease_until: datetime) -> None:
    """Return one lease of a replica."""


@query
def return_leases(*, owner: str | None) -> None:
    """Return all leases of one replica, or without an owner the leases of all replicas."""
