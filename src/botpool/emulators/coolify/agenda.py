"""What will happen when: a heap of events on emulated time."""

import heapq
import itertools
from collections.abc import Callable

Action = Callable[[], None]


class Agenda:
    """Events of the same moment happen in the order in which they were planned."""

    def __init__(self) -> None:
        self.now = 0.0
        self._order = itertools.count()
        self._events: list[tuple[float, int, Action]] = []

    def after(self, delay_s: float, action: Action) -> None:
        heapq.heappush(self._events, (self.now + max(delay_s, 0.0), next(self._order), action))

    def next_at(self) -> float | None:
        return self._events[0][0] if self._events else None

    def advance(self, to: float) -> None:
        """Let everything happen that is due until then. A moment in the past changes nothing."""
        while self._events and self._events[0][0] <= to:
            self.now, _, action = heapq.heappop(self._events)
            action()
        self.now = max(self.now, to)
