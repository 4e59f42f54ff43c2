"""Remembers which agents exceeded a limit of events, so that a flood costs no statement."""

import math
from collections.abc import Callable
from dataclasses import replace

from botpool.domain.errors import LimitExceeded
from botpool.domain.ids import AssignmentId
from botpool.domain.limits import EventLimits
from botpool.engine.runtime.clock import loop_time
from botpool.store.history import EventsOutcome

_MAX_REMEMBERED = 10_000
_EXHAUSTED_S = 3600
"""The number and the bytes of events are limits of the whole assignment: a retry cannot help."""


class EventRefusals:
    """The refusals of one replica, by assignment, each until its retry makes sense."""

    def __init__(self, *, monotonic: Callable[[], float] = loop_time) -> None:
        self._monotonic = monotonic
        self._refusals: dict[AssignmentId, tuple[float, LimitExceeded]] = {}

    def check(self, assignment_id: AssignmentId) -> None:
        """Raise the refusal of this assignment while it lasts."""
        until, refusal = self._refusals.get(assignment_id, (0.0, None))
        if refusal is None:
            return
        if (wait_s := until - self._monotonic()) > 0:
            raise replace(refusal, retry_after_s=max(1, math.ceil(wait_s)))
        del self._refusals[assignment_id]

    def remember(self, assignment_id: AssignmentId, refusal: LimitExceeded) -> None:
        if len(self._refusals) >= _MAX_REMEMBERED:
            self._refusals.clear()
        self._refusals[assignment_id] = (self._monotonic() + refusal.retry_after_s, refusal)


def events_refusal(outcome: EventsOutcome, limits: EventLimits) -> LimitExceeded:
    """Return the refusal that names the exceeded limit."""
    if outcome.too_many:
        return LimitExceeded(
            "limits.events_per_assignment",
            f"limits.events_per_assignment allows {limits.count} events.",
            retry_after_s=_EXHAUSTED_S,
        )
    if outcome.too_large:
        return LimitExceeded(
            "limits.event_bytes_per_assignment",
            f"limits.event_bytes_per_assignment allows {limits.bytes} bytes.",
            retry_after_s=_EXHAUSTED_S,
        )
    allowed = f"{limits.per_minute} events a minute, after a burst of {limits.burst}"
    return LimitExceeded(
        "limits.events_per_minute",
        f"limits.events_per_minute allows {allowed}.",
        retry_after_s=max(1, math.ceil(outcome.wait_s)),
    )
