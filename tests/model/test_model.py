"""Random sequences of operations on the real engine, each step checked against the reference."""

from unittest import mock

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from botpool.domain.recovery import RecoveryCase
from tests.model.machine import Machine
from tests.model.model_database import ModelDatabase
from tests.support.run_sizes import long_or_soak

STEPS = 40
FIXED_SEQUENCES = 22
"""The same sequences in every run."""
MORE_SEQUENCES = long_or_soak(150, 1_500)
"""Other sequences in every run; Hypothesis prints how to reproduce a failure."""
SEQUENCES_PER_BUG = 1_500


def run_sequences(url: str, sequences: int, *, fixed: bool, phases: tuple[Phase, ...]) -> int:
    """Run that many sequences and return the number of checked steps."""
    with ModelDatabase(url) as model:
        Machine.model = model
        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=sequences,
                stateful_step_count=STEPS,
                derandomize=fixed,
                database=None,
                deadline=None,
                print_blob=True,
                phases=phases,
                suppress_health_check=list(HealthCheck),
            ),
        )
    return model.steps


@pytest.mark.parametrize(
    "sequences",
    [
        pytest.param(FIXED_SEQUENCES, marks=pytest.mark.timeout(600)),
        pytest.param(
            MORE_SEQUENCES,
            marks=[pytest.mark.long, pytest.mark.soak, pytest.mark.timeout(7200)],
        ),
    ],
)
def test_random_operations_keep_every_invariant(
    database_url: str, capsys: pytest.CaptureFixture[str], sequences: int
) -> None:
    phases = (Phase.generate, Phase.shrink)
    steps = run_sequences(
        database_url, sequences, fixed=sequences == FIXED_SEQUENCES, phases=phases
    )
    with capsys.disabled():
        print(f"\n{steps} checked steps in {sequences} sequences")  # noqa: T201


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_model_finds_recovery_that_ignores_the_heartbeat_limit(database_url: str) -> None:
    """An injected bug: the sequences must find it."""
    bug = mock.patch.object(RecoveryCase, "is_silent", new=True)
    with bug, pytest.raises(AssertionError):
        run_sequences(database_url, SEQUENCES_PER_BUG, fixed=True, phases=(Phase.generate,))
