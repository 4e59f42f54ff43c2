"""The model: random lives of a Botpool, each step of them checked against the reference."""

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from machine import Machine
from theatre import Theatre

STEPS = 40
LIVES = 22
"""Always the same ones."""
MANY = 1_500
"""Others each time; Hypothesis prints what plays a failure again."""


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
    with Theatre(database_url) as theatre:
        Machine.theatre = theatre
        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=lives,
                stateful_step_count=STEPS,
                derandomize=lives == LIVES,
                database=None,
                deadline=None,
                print_blob=True,
                phases=(Phase.generate, Phase.shrink),
                suppress_health_check=list(HealthCheck),
            ),
        )
    with capsys.disabled():
        print(f"\n{theatre.steps} checked steps in {lives} lives")  # noqa: T201
