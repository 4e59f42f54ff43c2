"""The models of image rollouts."""

from datetime import datetime
from typing import Annotated

from pydantic import Field, StringConstraints

from botpool.api.patterns import VISIBLE
from botpool.api.schemas import Model, PoolNameField, RequestModel, WholeNumber
from botpool.domain.rollouts import records
from botpool.domain.rollouts.comparison import Measure

_WEEK_MS = 7 * 86_400_000


class RolloutCreate(RequestModel):
    """A request for a rollout."""

    image: Annotated[
        str,
        StringConstraints(min_length=1, max_length=500, pattern=VISIBLE),
        Field(
            description="The new image, with a tag of its own or with its digest.",
            examples=["ghcr.io/acme/bot:1.5"],
        ),
    ]
    cpus: Annotated[
        float | None,
        Field(strict=True, gt=0, le=1_000, allow_inf_nan=False, description="Default: the pool's."),
    ] = None
    memory_mb: Annotated[
        int | None,
        Field(strict=True, ge=16, le=10_000_000, description="Default: the pool's."),
        WholeNumber,
    ] = None
    canary_share: Annotated[
        float,
        Field(
            strict=True,
            gt=0,
            le=records.MAX_SHARE,
            allow_inf_nan=False,
            description="The share of assignments that the new revision gets first.",
        ),
    ] = 0.05
    bake_ms: Annotated[
        int,
        Field(
            strict=True,
            ge=0,
            le=_WEEK_MS,
            description="The shortest time of the canary before the promotion.",
        ),
        WholeNumber,
    ] = 1_800_000
    tolerance: Annotated[
        float,
        Field(
            strict=True,
            ge=0.01,
            le=0.5,
            allow_inf_nan=False,
            description="By how much a share of failures may rise: 0.1 are 10 percentage points. "
            "A smaller tolerance needs more bots.",
        ),
    ] = 0.1

    def requested(self) -> records.RolloutRequest:
        return records.RolloutRequest(
            image=self.image,
            cpus=self.cpus,
            memory_mb=self.memory_mb,
            share=self.canary_share,
            bake_s=self.bake_ms / 1000,
            tolerance=self.tolerance,
        )


class Revision(Model):
    """An image with its settings."""

    image: Annotated[
        str, Field(description="With its digest where the backend resolves one, as Docker does.")
    ]
    cpus: float
    memory_mb: int


class Tally(Model):
    failures: int
    bots: Annotated[int, Field(description="Bots with an outcome, failures included.")]
    pending: Annotated[int, Field(description="Bots whose outcome is still open.")]


class MeasureComparison(Model):
    measure: Annotated[
        Measure,
        Field(
            description="`slow_starts`: longer than 1.5 times the old revision's p95. "
            "`early_exits`: within 5 minutes after the start."
        ),
    ]
    old: Tally
    new: Tally
    probability_worse: Annotated[
        float,
        Field(
            description="How probable it is that the new revision is worse by more than the "
            "tolerance."
        ),
    ]
    bots_needed: Annotated[
        int,
        Field(description="Bots of the new revision that the comparison needs to be sure."),
    ]


class RevisionFigures(Model):
    assignments: int
    time_to_running_p50_ms: int | None
    time_to_running_p95_ms: int | None


class Comparison(Model):
    old: RevisionFigures
    new: RevisionFigures
    measures: list[MeasureComparison]
    sureness: Annotated[
        float,
        Field(description="How sure Botpool is that no measure is worse; it promotes at 0.95."),
    ]
    bots_needed: int


class Rollout(Model):
    """The rollout of a new revision in a pool."""

    id: int
    pool_name: PoolNameField
    state: records.RolloutState
    old: Revision
    new: Revision
    share: Annotated[float, Field(alias="canaryShare")]
    bake_ms: int
    tolerance: float
    started_by: str
    started_at: datetime
    canary_at: Annotated[datetime | None, Field(description="When the first bot could get it.")]
    ended_at: datetime | None
    reason: Annotated[str | None, Field(description="Why it was promoted or rolled back.")]
    waits_for: Annotated[str | None, Field(description="What it waits for until its end.")]
    comparison: Annotated[
        Comparison | None, Field(description="Both revisions side by side; null before the canary.")
    ]

    @classmethod
    def shown(cls, rollout: records.Rollout) -> "Rollout":
        return cls.of(rollout, bake_ms=round(rollout.bake_s * 1000))


class Rollouts(Model):
    rollouts: list[Rollout]


class RolloutResponse(Model):
    rollout: Rollout
