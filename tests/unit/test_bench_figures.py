"""Figures of the bench: the tolerance at which a small run fails."""

import pytest

from bench.figures import Figure
from bench.processor_time import Cost, compare


@pytest.mark.parametrize(
    ("median", "at_most", "is_alarming"),
    [(0.51, False, False), (0.49, False, True), (1.99, True, False), (2.01, True, True)],
)
def test_default_tolerance_is_half_of_the_goal(
    median: float, at_most: bool, is_alarming: bool
) -> None:
    figure = Figure(name="any", rounds=[median], goal=1, at_most=at_most)
    assert figure.is_alarming is is_alarming


def test_median_of_the_rounds_decides() -> None:
    assert not Figure(name="any", rounds=[0.1, 0.6, 0.9], goal=1).is_alarming


@pytest.mark.parametrize(("median", "is_alarming"), [(0.21, False), (0.19, True)])
def test_explicit_tolerance_replaces_the_default(median: float, is_alarming: bool) -> None:
    figure = Figure(name="any", rounds=[median], goal=1, tolerance=0.2)
    assert figure.is_alarming is is_alarming
    assert figure.tolerance_text == "≥ 0.2"


def test_figure_without_goal_never_alarms() -> None:
    assert not Figure(name="any", rounds=[0.0]).is_alarming


def test_limit_leaves_out_our_client() -> None:
    ours = [Cost(per_second=1, server_s=2, client_s=1)]
    theirs = [Cost(per_second=1, server_s=4, client_s=2)]
    assert compare(ours, theirs) == {"processor_time_ratio": 2, "limit": 3}
