"""Statements about leases of slots and the time of their next step."""

from collections.abc import Sequence
from datetime import datetime

from botpool.domain.ids import SlotId
from botpool.domain.records import FencedSlot, LeasedSlot
from botpool.store.statement import Statement, column, no_rows, record_of


def lease_slots(
    *, owner: str, lease_s: float, limit: int, backends: Sequence[str]
) -> Statement[LeasedSlot]:
    """Lease slots whose next step is due."""
    parameters = {"owner": owner, "lease_s": lease_s, "limit": limit, "backends": list(backends)}
    return Statement("lease_slots", parameters, record_of(LeasedSlot))


def postpone_step(
    slot: FencedSlot,
    *,
    delay_s: float,
    problem: str | None = None,
    stop_issued: bool = False,
    stop_unreliable: bool = False,
    delete_issued: bool = False,
) -> Statement[int]:
    """Return the lease and make the slot's next step due later; returns the slot's version.

    `stop_unreliable` replaces the time of an earlier stop that the backend may not have executed.
    """
    parameters = {
        "slot_id": slot.slot_id,
        "assignment_id": slot.assignment_id,
        "version": slot.version,
        "delay_s": delay_s,
        "problem": problem,
        "stop_issued": stop_issued,
        "stop_unreliable": stop_unreliable,
        "delete_issued": delete_issued,
    }
    return Statement("postpone_step", parameters, column("version", int))


def return_lease(slot_id: SlotId, *, owner: str, lease_until: datetime) -> Statement[None]:
    """Return one lease of a replica."""
    parameters = {"slot_id": slot_id, "owner": owner, "lease_until": lease_until}
    return Statement("return_lease", parameters, no_rows)


def return_leases(*, owner: str | None) -> Statement[None]:
    """Return all leases of one replica, or without an owner the leases of all replicas."""
    return Statement("return_leases", {"owner": owner}, no_rows)
