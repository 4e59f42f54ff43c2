"""A figure: what was measured in each round, and what is wanted of it."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    name: str
    rounds: Sequence[float]
    goal: float | None = None
    at_most: bool = False
    """Is less better? Then the goal is a maximum."""
    alarm: float | None = None
    """What alarms, if not half of the goal: for a goal that is not reached, and says why."""
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def reached(self) -> bool | None:
        return None if self.goal is None else self._holds(self.goal)

    @property
    def is_alarming(self) -> bool:
        return self._limit is not None and not self._holds(self._limit)

    @property
    def wanted(self) -> str:
        return self._told(self.goal)

    @property
    def tolerated(self) -> str:
        """What does not alarm yet."""
        return self._told(self._limit)

    @property
    def _limit(self) -> float | None:
        """Half of the goal, if nothing else was set: less is noise on a shared machine."""
        if self.alarm is not None or self.goal is None:
            return self.alarm
        return self.goal * 2 if self.at_most else self.goal / 2

    def _told(self, bound: float | None) -> str:
        return "" if bound is None else f"{'≤' if self.at_most else '≥'} {bound:g}"

    def _holds(self, goal: float) -> bool:
        return self.median <= goal if self.at_most else self.median >= goal

    def to_json(self) -> dict[str, Any]:
        return {
            "median": round(self.median, 4),
            "low": round(min(self.rounds), 4),
            "high": round(max(self.rounds), 4),
            "rounds": len(self.rounds),
            "goal": self.wanted or None,
            "reached": self.reached,
            **self.detail,
        }
