"""The model: random lives of a Botpool, each step of them checked against the reference."""

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test
from machine import Machine
from theatre import Theatre

STEPS = 40
LIVES = 30
MANY = 1_500


@pytest.mark.timeout(900)
@pytest.mark.parametrize("lives", [LIVES, pytest.param(MANY, marks=pytest.mark.long)])
def test_whatever_is_done_in_whatever_order(
    database_url: str, lives: int, record_testsuite_property: Callable[[str, object], None]
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
        print(f"{theatre.steps} steps in {lives} lives")  # noqa: T201 - how much was tried
