"""Compares the bots of two revisions on four measures, and decides about the rollout.

Each measure is a share of failures, so one statistic serves all of them (`beta_comparison.py`).
A bot whose outcome is still open is pending. It counts as a success when the question is whether to
roll back, and not at all when the question is whether to promote: neither decision is early.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Self

from botpool.domain.rollouts.beta_comparison import Share, bots_needed, probability_worse

SURE_TO_PROMOTE = 0.95
"""How sure Botpool must be that no measure is worse by more than the tolerance."""
SURE_TO_ROLL_BACK = 0.99
"""How sure it must be that one measure is. Higher, because Botpool asks after every bot."""
MIN_FAILURES = 2
"""One bot alone decides nothing: its meeting or its host may be at fault."""
EARLY_EXIT_S = 300.0
"""A container that dies within this time after its start has exited early."""
SLOW_FACTOR, SLOW_MARGIN_S = 1.5, 5.0
"""A start is slow if it takes longer than this factor times the old revision's p95, and longer than
the p95 plus this margin."""
MIN_STARTS_FOR_P95 = 20
"""The old revision's p95 counts after so many starts of a kind: hot, warm or cold."""


class Arm(StrEnum):
    """The side of the comparison."""

    OLD = "old"
    NEW = "new"


class Measure(StrEnum):
    FAILED_STARTS = "failed_starts"
    SLOW_STARTS = "slow_starts"
    EARLY_EXITS = "early_exits"
    NOT_IN_CALL = "not_in_call"


_FAILED: Mapping[Measure, str] = {
    Measure.FAILED_STARTS: "did not start",
    Measure.SLOW_STARTS: "started slowly",
    Measure.EARLY_EXITS: f"exited within {EARLY_EXIT_S / 60:g} minutes",
    Measure.NOT_IN_CALL: "did not reach the call",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How many bots of one revision have an outcome in one measure, and how many failed."""

    failures: int
    bots: int
    pending: int = 0

    @property
    def decided(self) -> Share:
        return Share(self.failures, self.bots)

    @property
    def with_pending(self) -> Share:
        return Share(self.failures, self.bots + self.pending)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureComparison:
    """One measure of both revisions."""

    measure: Measure
    old: Tally
    new: Tally
    probability_worse: float
    """How probable it is that the new revision is worse by more than the tolerance."""
    bots_needed: int
    """How many bots of the new revision make Botpool sure, if it is like the old one."""

    @property
    def is_sure(self) -> bool:
        """Whether Botpool is sure that the new revision is not worse."""
        return self.probability_worse <= 1 - SURE_TO_PROMOTE


@dataclass(frozen=True, slots=True, kw_only=True)
class ArmFigures:
    """The figures of one revision beside the four measures."""

    assignments: int
    time_to_running_p50_ms: int | None
    time_to_running_p95_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """All measures of both revisions."""

    old: ArmFigures
    new: ArmFigures
    measures: Sequence[MeasureComparison]

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as it is stored."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """Read a stored comparison."""
        measures = [
            MeasureComparison(
                **{
                    **each,
                    "measure": Measure(each["measure"]),
                    "old": Tally(**each["old"]),
                    "new": Tally(**each["new"]),
                }
            )
            for each in stored["measures"]
        ]
        return cls(
            old=ArmFigures(**stored["old"]), new=ArmFigures(**stored["new"]), measures=measures
        )

    @property
    def sureness(self) -> float:
        """How sure Botpool is that the new revision is not worse in its worst measure."""
        return 1 - max(each.probability_worse for each in self.measures)

    @property
    def bots_needed(self) -> int:
        return max(each.bots_needed for each in self.measures)


class Verdict(StrEnum):
    WAIT = "wait"
    PROMOTE = "promote"
    ROLL_BACK = "roll_back"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    verdict: Verdict
    reason: str


def compare(
    measure: Measure, old: Tally, new: Tally, *, share: float, tolerance: float
) -> MeasureComparison:
    """Compare both revisions on one measure."""
    return MeasureComparison(
        measure=measure,
        old=old,
        new=new,
        probability_worse=probability_worse(new.decided, old.decided, tolerance),
        bots_needed=bots_needed(
            old.decided, new_share=share, tolerance=tolerance, sure=SURE_TO_PROMOTE
        ),
    )


def decide(comparison: Comparison, *, tolerance: float, bake_left_s: float) -> Decision:
    """Decide about a canary. A failure is acted on at once, a success after the bake time."""
    for each in comparison.measures:
        if each.new.failures >= MIN_FAILURES:
            worse = probability_worse(each.new.with_pending, each.old.decided, tolerance)
            if worse >= SURE_TO_ROLL_BACK:
                return Decision(verdict=Verdict.ROLL_BACK, reason=_worse(each, worse, tolerance))
    unsure = [each for each in comparison.measures if not each.is_sure]
    if unsure:
        return Decision(verdict=Verdict.WAIT, reason=_needs_bots(comparison, unsure))
    if bake_left_s > 0:
        return Decision(verdict=Verdict.WAIT, reason=f"the bake time, {_minutes(bake_left_s)} more")
    return Decision(verdict=Verdict.PROMOTE, reason=_no_worse(comparison, tolerance))


def _worse(each: MeasureComparison, probability: float, tolerance: float) -> str:
    return (
        f"{_of(each.new)} bots of the new revision {_FAILED[each.measure]}, "
        f"{_of(each.old)} of the old one. With a probability of {_percent(probability)} the new "
        f"revision is worse by more than {_points(tolerance)}."
    )


def _no_worse(comparison: Comparison, tolerance: float) -> str:
    return (
        f"After {comparison.new.assignments} bots of the new revision, no measure is worse by more "
        f"than {_points(tolerance)}, with a probability of {_percent(comparison.sureness)} or more."
    )


def _needs_bots(comparison: Comparison, unsure: Sequence[MeasureComparison]) -> str:
    needed = max(unsure, key=lambda each: (each.bots_needed - each.new.bots, each.bots_needed))
    return (
        f"more bots of the new revision: {needed.new.bots} of about {needed.bots_needed} have an "
        f"outcome in {needed.measure.replace('_', ' ')}; {_percent(comparison.sureness)} sure"
    )


def _of(tally: Tally) -> str:
    return f"{tally.failures} of {tally.bots}"


def _percent(probability: float) -> str:
    """Return a percentage that is never rounded up to certainty."""
    return f"{min(int(probability * 1000) / 10, 99.9):g} %"


def _points(tolerance: float) -> str:
    return f"{tolerance * 100:g} percentage points"


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 60 else f"{seconds:.0f} s"
