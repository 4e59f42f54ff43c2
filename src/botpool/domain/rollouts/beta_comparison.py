"""Compares two shares, for example of failed starts, by their Beta distributions.

Before the first bot every share is equally likely. After `failures` of `bots`, the share has the
distribution Beta(1 + failures, 1 + bots - failures). The functions are exact up to the numerical
integration, also for few bots, where an approximation by the normal distribution is not.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

_POINTS = 80
"""Points of the integration; with more, no result changes in its third digit."""
_WIDTH = 7.0
"""Standard deviations on each side of the mean over which the integration runs."""
_MAX_TERMS = 300
_PRECISION = 1e-9
_TINY = 1e-30
SAMPLE_SIZES: Sequence[int] = (
    *(10, 15, 20, 25, 30, 40, 50, 60, 80, 100, 125, 150, 200, 250, 300, 400, 500, 600, 800),
    *(1_000, 1_500, 2_000, 3_000, 5_000, 10_000, 20_000, 50_000, 100_000),
)
"""The sizes that `bots_needed` returns."""


@dataclass(frozen=True, slots=True)
class Share:
    """So many of the bots failed. Expected values need not be whole numbers."""

    failures: float
    bots: float

    @property
    def alpha(self) -> float:
        return 1.0 + self.failures

    @property
    def beta(self) -> float:
        return 1.0 + self.bots - self.failures

    @property
    def mean(self) -> float:
        """The expected share, between the observed one and a half."""
        return self.alpha / (self.alpha + self.beta)

    @property
    def deviation(self) -> float:
        total = self.alpha + self.beta
        return math.sqrt(self.alpha * self.beta / (total * total * (total + 1.0)))


def probability_worse(new: Share, old: Share, tolerance: float) -> float:
    """Return how probable it is that the new share exceeds the old one by more than `tolerance`."""
    low = max(0.0, old.mean - _WIDTH * old.deviation)
    high = min(1.0, old.mean + _WIDTH * old.deviation)
    step = (high - low) / _POINTS
    weight = worse = 0.0
    for number in range(_POINTS):
        share = low + (number + 0.5) * step
        density = math.exp(_log_density(share, old))
        weight += density
        worse += density * (1.0 - cumulative(share + tolerance, new))
    return worse / weight


def bots_needed(old: Share, *, new_share: float, tolerance: float, sure: float) -> int:
    """Return how many bots of the new revision the comparison needs, if it is like the old one.

    With so many, and with the old revision's bots that arrive meanwhile, the probability of "worse
    by more than the tolerance" falls to `1 - sure`. Rounded up to one of `SAMPLE_SIZES`.
    """
    rate = old.mean

    def remaining(bots: int) -> float:
        old_bots = max(old.bots, bots * (1.0 - new_share) / new_share)
        return probability_worse(
            Share(rate * bots, bots), Share(rate * old_bots, old_bots), tolerance
        )

    index = bisect_left(SAMPLE_SIZES, True, key=lambda bots: remaining(bots) <= 1.0 - sure)
    return SAMPLE_SIZES[min(index, len(SAMPLE_SIZES) - 1)]


def cumulative(at: float, share: Share) -> float:
    """Return the probability that the share is at most `at`: the regularised incomplete beta."""
    if at <= 0.0:
        return 0.0
    if at >= 1.0:
        return 1.0
    a, b = share.alpha, share.beta
    front = math.exp(_log_density(at, share) + math.log(at) + math.log1p(-at))
    # The continued fraction converges quickly on this side of the mean.
    if at < (a + 1.0) / (a + b + 2.0):
        return front * _fraction(a, b, at) / a
    return 1.0 - front * _fraction(b, a, 1.0 - at) / b


def _log_density(at: float, share: Share) -> float:
    a, b = share.alpha, share.beta
    normaliser = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return normaliser + (a - 1.0) * math.log(at) + (b - 1.0) * math.log1p(-at)


def _fraction(a: float, b: float, at: float) -> float:
    """Evaluate the continued fraction of the incomplete beta function by Lentz's method."""
    c, d = 1.0, 1.0 / _away_from_zero(1.0 - (a + b) * at / (a + 1.0))
    result = d
    for m in range(1, _MAX_TERMS):
        even = m * (b - m) * at / ((a + 2 * m - 1.0) * (a + 2 * m))
        d = 1.0 / _away_from_zero(1.0 + even * d)
        c = _away_from_zero(1.0 + even / c)
        result *= d * c
        odd = -(a + m) * (a + b + m) * at / ((a + 2 * m) * (a + 2 * m + 1.0))
        d = 1.0 / _away_from_zero(1.0 + odd * d)
        c = _away_from_zero(1.0 + odd / c)
        result *= d * c
        if abs(d * c - 1.0) < _PRECISION:
            break
    return result


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
