"""What the planner replays: the bots of a pool, their starts and how long they kept their slots."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import IntEnum
from itertools import accumulate
from statistics import median

from botpool.domain.warm import Warm


class StartKind(IntEnum):
    """The start of a bot, by what its slot had ready."""

    HOT = 0
    WARM = 1
    COLD = 2


DEFAULT_START_S = {StartKind.HOT: 0.3, StartKind.WARM: 30.0, StartKind.COLD: 480.0}
"""Times to running while a pool has no record of such a start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stay:
    """One assignment: from the claim of the slot until it was free again."""

    kind: StartKind
    start_s: float | None
    """From the assignment to running; None if the container never ran."""
    after_s: float
    """From running until the slot was free again; from the assignment if it never ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedBot:
    """One bot: when it arrived, and its assignments, the retries included."""

    arrived_s: float
    """Seconds since the start of the record."""
    priority: int
    queue_timeout_s: float
    stays: Sequence[Stay]
    wait_s: float | None
    """From the arrival to running, as recorded; None if it never ran."""
    scheduled: bool = False
    """Whether Botpool knew of the bot in advance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """The bots of a pool in a period, in the order of their arrival."""

    since: datetime
    duration_s: float
    bots: Sequence[RecordedBot]
    idle_slots: int = 0
    """Slots with a container at the start of the period."""

    @property
    def days(self) -> float:
        return max(self.duration_s / 86_400, 1e-9)

    def start_s(self) -> dict[StartKind, float]:
        """The median time to running of each kind of start; a guess for kinds without a record."""
        seen: dict[StartKind, list[float]] = {kind: [] for kind in StartKind}
        for bot in self.bots:
            for stay in bot.stays:
                if stay.start_s is not None:
                    seen[stay.kind].append(stay.start_s)
        typical = {kind: median(starts) for kind, starts in seen.items() if starts}
        warm = typical.get(StartKind.WARM)
        cold = typical.get(StartKind.COLD)
        if warm is None:
            warm = min(DEFAULT_START_S[StartKind.WARM], cold or DEFAULT_START_S[StartKind.WARM])
        if cold is None:
            cold = max(
                warm, DEFAULT_START_S[StartKind.COLD] if StartKind.WARM not in typical else warm
            )
        hot = typical.get(StartKind.HOT, min(DEFAULT_START_S[StartKind.HOT], warm))
        return {StartKind.HOT: hot, StartKind.WARM: warm, StartKind.COLD: cold}

    def typical_stay_s(self) -> float:
        """The median time from running until the slot was free again."""
        stays = [
            stay.after_s for bot in self.bots for stay in bot.stays if stay.start_s is not None
        ]
        return median(stays) if stays else 1_800.0

    def peak(self) -> int:
        """How many bots would have a slot at the same time if none had to wait."""
        changes: list[tuple[float, int]] = []
        typical_s = self.typical_stay_s()
        for bot in self.bots:
            length_s = sum((stay.start_s or 0.0) + stay.after_s for stay in bot.stays)
            changes += [(bot.arrived_s, 1), (bot.arrived_s + (length_s or typical_s), -1)]
        return max(accumulate(change for _, change in sorted(changes)), default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedPool:
    """The settings of a pool that decide how its bots wait."""

    name: str
    max_size: int
    warm: Warm
