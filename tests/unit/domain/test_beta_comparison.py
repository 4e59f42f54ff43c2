"""The comparison of two shares: known values, and how often it errs."""

import math
import random

import pytest

from botpool.domain.rollouts.beta_comparison import (
    SAMPLE_SIZES,
    Share,
    bots_needed,
    cumulative,
    probability_worse,
)
from botpool.domain.rollouts.comparison import MIN_FAILURES, SURE_TO_ROLL_BACK


@pytest.mark.parametrize("at", [0.001, 0.06, 0.5, 0.94, 0.999])
@pytest.mark.parametrize(("failures", "bots"), [(0, 0), (1, 1), (0, 41), (3, 10), (40, 200)])
def test_cumulative_equals_the_binomial_sum(at: float, failures: int, bots: int) -> None:
    # The incomplete beta function of whole numbers is a sum of binomial probabilities.
    n = bots + 1
    expected = sum(
        math.comb(n, k) * at**k * (1 - at) ** (n - k) for k in range(failures + 1, n + 1)
    )
    assert cumulative(at, Share(failures, bots)) == pytest.approx(expected, abs=1e-7)


def test_cumulative_ends_at_zero_and_one() -> None:
    assert cumulative(-0.1, Share(1, 2)) == cumulative(0.0, Share(1, 2)) == 0.0
    assert cumulative(1.0, Share(1, 2)) == cumulative(1.2, Share(1, 2)) == 1.0


def test_equal_revisions_are_a_coin_toss_without_tolerance() -> None:
    assert probability_worse(Share(5, 100), Share(5, 100), 0.0) == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize(
    ("new", "old"), [((2, 2), (1, 80)), ((9, 30), (2, 100)), ((0, 30), (0, 0))]
)
def test_probability_agrees_with_random_draws(new: tuple[int, int], old: tuple[int, int]) -> None:
    draws, random_numbers = 20_000, random.Random(7)
    a, b = Share(*new), Share(*old)
    worse = sum(
        random_numbers.betavariate(a.alpha, a.beta)
        > random_numbers.betavariate(b.alpha, b.beta) + 0.1
        for _ in range(draws)
    )
    assert probability_worse(a, b, 0.1) == pytest.approx(worse / draws, abs=0.02)


def test_probability_of_large_samples_is_certain() -> None:
    assert probability_worse(Share(20_000, 100_000), Share(10_000, 1_000_000), 0.1) > 0.999
    assert probability_worse(Share(1_000, 100_000), Share(10_000, 1_000_000), 0.1) < 0.001


@pytest.mark.parametrize("rate", [0.0, 0.02, 0.2, 0.5])
@pytest.mark.parametrize("share", [0.05, 0.5])
def test_needed_bots_are_the_fewest_that_suffice(rate: float, share: float) -> None:
    old = Share(rate * 1_000, 1_000)
    needed = bots_needed(old, new_share=share, tolerance=0.1, sure=0.95)

    def remaining(bots: int) -> float:
        others = max(1_000.0, bots * (1 - share) / share)
        expected = Share(old.mean * bots, bots), Share(old.mean * others, others)
        return probability_worse(*expected, 0.1)

    assert remaining(needed) <= 0.05
    smaller = [size for size in SAMPLE_SIZES if size < needed]
    assert not smaller or remaining(smaller[-1]) > 0.05


def test_smaller_tolerance_needs_more_bots() -> None:
    old = Share(20, 1_000)
    few, many = (
        bots_needed(old, new_share=0.05, tolerance=tolerance, sure=0.95)
        for tolerance in (0.1, 0.02)
    )
    assert few < many


def _rolled_back_after(new_rate: float, old_rate: float, random_numbers: random.Random) -> int:
    """Simulate a canary of a tenth of the bots; returns its bots at the rollback, else 0."""
    new_failures = old_failures = 0
    for bots in range(1, 81):
        old_failures += sum(random_numbers.random() < old_rate for _ in range(9))
        if random_numbers.random() >= new_rate:
            continue
        new_failures += 1
        shares = Share(new_failures, bots), Share(old_failures, 9 * bots)
        if new_failures >= MIN_FAILURES and probability_worse(*shares, 0.1) >= SURE_TO_ROLL_BACK:
            return bots
    return 0


@pytest.mark.parametrize("rate", [0.02, 0.1, 0.2])
def test_equal_revision_is_rarely_rolled_back_although_every_bot_is_a_question(rate: float) -> None:
    random_numbers = random.Random(11)
    wrong = sum(_rolled_back_after(rate, rate, random_numbers) > 0 for _ in range(100))
    assert wrong <= 5


@pytest.mark.parametrize(("rate", "within"), [(1.0, 3), (0.6, 20), (0.4, 60)])
def test_bad_revision_is_rolled_back(rate: float, within: int) -> None:
    random_numbers = random.Random(12)
    ends = [_rolled_back_after(rate, 0.02, random_numbers) for _ in range(100)]
    assert sum(0 < bots <= within for bots in ends) >= 95
