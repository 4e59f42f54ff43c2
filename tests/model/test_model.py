"""The model: random lives of a Botpool, each step of them checked against the reference."""

from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from botpool.domain.recovery import RecoveryCase
from tests.model.machine import Machine
from tests.model.theatre import Theatre

STEPS = 40
LIVES = 22
"""Always the same ones."""
MANY = 1_500
"""Others each time; Hypothesis prints what plays a failure again."""


def live(url: str, lives: int, *, fixed: bool, phases: tuple[Phase, ...]) -> int:
    """Live so many lives; how many steps of them were checked."""
    with Theatre(url) as theatre:
        Machine.theatre = theatre
        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=lives,
                stateful_step_count=STEPS,
                derandomize=fixed,
                database=None,
                deadline=None,
                print_blob=True,
                phases=phases,
                suppress_health_check=list(HealthCheck),
            ),
        )
    return theatre.steps


@pytest.mark.parametrize(
    "lives",
    [
        pytest.param(LIVES, marks=pytest.mark.timeout(600)),
        pytest.param(MANY, marks=[pytest.mark.long, pytest.mark.timeout(7200)]),
    ],
)
def test_whatever_is_done_in_whatever_order(
    database_url: str, capsys: pytest.CaptureFixture[str], lives: int
) -> None:
    phases = (Phase.generate, Phase.shrink)
    steps = live(database_url, lives, fixed=lives == LIVES, phases=phases)
    with capsys.disabled():
        print(f"\n{steps} checked steps in {lives} lives")  # noqa: T201


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_silence_without_its_limit_ends_a_life(database_url: str) -> None:
    """A bug put in by hand: the lives can find something."""
    bug = mock.patch.object(RecoveryCase, "is_silent", new=True)
    with bug, pytest.raises(AssertionError):
        live(database_url, MANY, fixed=True, phases=(Phase.generate,))
