"""A measured figure with its rounds, its goal and its tolerance."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


def percentile(times: Sequence[float], share: float) -> float:
    """Return the smallest time that `share` percent of the times do not exceed."""
    return sorted(times)[math.ceil(len(times) * share / 100) - 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    name: str
    rounds: Sequence[float]
    goal: float | None = None
    at_most: bool = False
    """Whether the goal is a maximum: less is better."""
    tolerance: float | None = None
    """The value at which a small run fails; by default half as good as the goal."""
    detail: Mapping[str, Any] = field(default_factory=dict)

    @property
    def median(self) -> float:
        return statistics.median(self.rounds)

    @property
    def reached(self) -> bool | None:
        return None if self.goal is None else self._holds(self.goal)

    @property
    def is_alarming(self) -> bool:
        """Return whether the figure misses its tolerance."""
        return self._limit is not None and not self._holds(self._limit)

    @property
    def goal_text(self) -> str:
        return self._to_text(self.goal)

    @property
    def tolerance_text(self) -> str:
        return self._to_text(self._limit)

    @property
    def _limit(self) -> float | None:
        if self.tolerance is not None or self.goal is None:
            return self.tolerance
        return self.goal * 2 if self.at_most else self.goal / 2

    def _to_text(self, bound: float | None) -> str:
        return "" if bound is None else f"{'≤' if self.at_most else '≥'} {bound:g}"

    def _holds(self, goal: float) -> bool:
        return self.median <= goal if self.at_most else self.median >= goal

    def to_json(self) -> dict[str, Any]:
        return {
            "median": round(self.median, 4),
            "low": round(min(self.rounds), 4),
            "high": round(max(self.rounds), 4),
            "rounds": len(self.rounds),
            "goal": self.goal_text or None,
            "reached": self.reached,
            **self.detail,
        }
