"""Statements about observations of a backend's containers."""

from collections.abc import Sequence

from botpool.domain.ids import AssignmentId, ContainerId
from botpool.domain.records import ObservedSlot
from botpool.store.statement import Statement, column, no_rows, record_of


def lease_observations(*, interval_s: float, backends: Sequence[str]) -> Statement[str]:
    """Lease the backends whose observation is due; returns their names."""
    parameters = {"interval_s": interval_s, "backends": list(backends)}
    return Statement("lease_observations", parameters, column("backend", str))


def list_observed_slots(
    backend: str, *, container_id: ContainerId | None = None
) -> Statement[ObservedSlot]:
    """List the slots of a backend whose containers should run or should have stopped."""
    parameters = {"backend": backend, "container_id": container_id}
    return Statement("list_observed_slots", parameters, record_of(ObservedSlot))


def mark_status_unreliable(backend: str) -> Statement[None]:
    """Record that a backend's statuses are unreliable now."""
    return Statement("mark_status_unreliable", {"backend": backend}, no_rows)


def record_observed_running(assignment_id: AssignmentId) -> Statement[None]:
    """Record the first observation that shows an assignment's container running."""
    return Statement("record_observed_running", {"assignment_id": assignment_id}, no_rows)
