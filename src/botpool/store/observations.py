"""Statements about observations of a backend's containers."""

from collections.abc import Sequence

from botpool.domain.fenced_slots import ObservedSlot
from botpool.domain.ids import AssignmentId, ContainerId
from botpool.store.query import query


@query
def lease_observations(
    *, interval_s: float, backends: Sequence[str], clusters: Sequence[str]
) -> list[str]:
    """Lease the backends whose observation is due; returns their names."""


@query
def list_observed_slots(
    *, backend: str, container_id: ContainerId | None = None
) -> list[ObservedSlot]:
    """List the slots of a backend whose containers should run or should have stopped."""


@query
def mark_status_unreliable(*, backend: str) -> None:
    """Record that a backend's statuses are unreliable now."""


@query
def record_observed_running(*, assignment_id: AssignmentId) -> None:
    """Record the first observation that shows an assignment's container running."""
