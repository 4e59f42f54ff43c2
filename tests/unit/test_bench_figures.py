"""When a figure of the bench alarms: it fails `make test`, so it must be neither deaf nor jumpy."""

import pytest

from bench.costs import Cost, compared
from bench.figures import Figure


@pytest.mark.parametrize(
    ("median", "at_most", "alarms"),
    [(0.51, False, False), (0.49, False, True), (1.99, True, False), (2.01, True, True)],
)
def test_it_alarms_at_half_of_its_goal(median: float, at_most: bool, alarms: bool) -> None:
    figure = Figure(name="any", rounds=[median], goal=1, at_most=at_most)
    assert figure.is_alarming is alarms


def test_it_is_judged_by_the_median_of_its_rounds() -> None:
    assert not Figure(name="any", rounds=[0.1, 0.6, 0.9], goal=1).is_alarming


@pytest.mark.parametrize(("median", "alarms"), [(0.21, False), (0.19, True)])
def test_an_alarm_of_its_own_goes_first(median: float, alarms: bool) -> None:
    figure = Figure(name="any", rounds=[median], goal=1, alarm=0.2)
    assert figure.is_alarming is alarms
    assert figure.tolerated == "≥ 0.2"


def test_without_a_goal_it_never_alarms() -> None:
    assert not Figure(name="any", rounds=[0.0]).is_alarming


def test_the_limit_is_a_client_without_cost() -> None:
    ours = [Cost(per_second=1, server_s=2, client_s=1)]
    theirs = [Cost(per_second=1, server_s=4, client_s=2)]
    assert compared(ours, theirs) == {"processor_time_ratio": 2, "limit": 3}
