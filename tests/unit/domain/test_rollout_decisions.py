"""The decision about a canary: promote, roll back or wait."""

import pytest

from botpool.domain.rollouts.comparison import (
    ArmFigures,
    Comparison,
    Measure,
    Tally,
    Verdict,
    compare,
    decide,
)

FIGURES = ArmFigures(assignments=60, time_to_running_p50_ms=1, time_to_running_p95_ms=2)
GOOD_OLD = Tally(failures=5, bots=500)
GOOD_NEW = Tally(failures=1, bots=60)


def comparison(**new: Tally) -> Comparison:
    measures = [
        compare(measure, GOOD_OLD, new.get(measure.value, GOOD_NEW), share=0.1, tolerance=0.1)
        for measure in Measure
    ]
    return Comparison(old=FIGURES, new=FIGURES, measures=measures)


def test_good_revision_is_promoted_after_the_bake_time() -> None:
    early = decide(comparison(), tolerance=0.1, bake_left_s=90)
    assert (early.verdict, early.reason) == (Verdict.WAIT, "the bake time, 2 min more")
    late = decide(comparison(), tolerance=0.1, bake_left_s=0)
    assert late.verdict is Verdict.PROMOTE
    assert late.reason.startswith("After 60 bots of the new revision, no measure is worse")


@pytest.mark.parametrize(
    ("measure", "words"),
    [
        (Measure.FAILED_STARTS, "did not start"),
        (Measure.SLOW_STARTS, "started slowly"),
        (Measure.EARLY_EXITS, "exited within 5 minutes"),
        (Measure.NOT_IN_CALL, "did not reach the call"),
    ],
)
def test_each_measure_rolls_back_at_once(measure: Measure, words: str) -> None:
    bad = comparison(**{measure.value: Tally(failures=2, bots=2)})
    decision = decide(bad, tolerance=0.1, bake_left_s=1_800)
    assert decision.verdict is Verdict.ROLL_BACK
    assert decision.reason.startswith(f"2 of 2 bots of the new revision {words}, 5 of 500 of the ")


def test_one_failure_rolls_nothing_back() -> None:
    one = comparison(failed_starts=Tally(failures=1, bots=1))
    assert decide(one, tolerance=0.1, bake_left_s=0).verdict is Verdict.WAIT


def test_pending_bots_delay_a_rollback() -> None:
    pending = comparison(early_exits=Tally(failures=2, bots=2, pending=20))
    assert decide(pending, tolerance=0.1, bake_left_s=0).verdict is Verdict.WAIT


def test_pending_bots_are_no_reason_to_promote() -> None:
    pending = comparison(early_exits=Tally(failures=0, bots=0, pending=500))
    decision = decide(pending, tolerance=0.1, bake_left_s=0)
    assert decision.verdict is Verdict.WAIT
    assert "0 of about" in decision.reason and "early exits" in decision.reason


def test_few_bots_are_no_reason_to_promote() -> None:
    few = comparison(not_in_call=Tally(failures=0, bots=3))
    decision = decide(few, tolerance=0.1, bake_left_s=0)
    assert decision.verdict is Verdict.WAIT
    assert "3 of about 30 have an outcome in not in call" in decision.reason


def test_measure_that_no_bot_of_the_pool_reaches_blocks_nothing() -> None:
    never = compare(
        Measure.NOT_IN_CALL,
        Tally(failures=500, bots=500),
        Tally(failures=60, bots=60),
        share=0.1,
        tolerance=0.1,
    )
    assert never.is_sure
