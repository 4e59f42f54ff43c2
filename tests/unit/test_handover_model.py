"""The hand-over model holds in every execution, and each of its guards is needed."""

import re
from pathlib import Path

import pytest

from tests.support.spin import MODEL, check_model

PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "handover-model.md"
FAULTS_NEEDED = {"NO_START_FENCE": 2, "STANDBY_REUSED": 2, "CLAIM_CLEARS_START": 2}
"""Guards whose counterexample needs more than one fault."""
GUARDS = sorted(set(re.findall(r"#ifn?def ([A-Z_]+)", MODEL.read_text())) - {"FAULTS", "STANDBYS"})


def test_every_execution_with_a_fault_ends_every_bot_once(tmp_path: Path) -> None:
    verdict = check_model(tmp_path, faults=1, standbys=2)
    assert verdict.violated is None, "\n".join(verdict.steps)
    assert verdict.complete
    assert verdict.states > 1_000_000


@pytest.mark.timeout(900)
@pytest.mark.parametrize("standbys", [1, pytest.param(2, marks=pytest.mark.long)])
def test_no_execution_goes_on_for_ever(tmp_path: Path, standbys: int) -> None:
    """Every execution ends, and at its end every bot is final: so every bot ends."""
    verdict = check_model(tmp_path, faults=1, standbys=standbys, find_cycles=True)
    assert verdict.violated is None, "\n".join(verdict.steps)
    assert verdict.complete
    assert verdict.states > 500_000


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_every_execution_with_two_faults_ends_every_bot_once(tmp_path: Path) -> None:
    verdict = check_model(tmp_path, faults=2, standbys=1)
    assert verdict.violated is None, "\n".join(verdict.steps)
    assert verdict.complete


@pytest.mark.parametrize("guard", GUARDS)
def test_model_without_a_guard_has_the_documented_counterexample(
    guard: str, tmp_path: Path
) -> None:
    verdict = check_model(tmp_path, faults=FAULTS_NEEDED.get(guard, 1), standbys=1, broken=guard)
    assert verdict.violated is not None
    section = PAGE.read_text().split(f"## Without a guard: `{guard}`")[1].split("\n## ")[0]
    documented = section.split("```text\n")[1].split("```")[0].splitlines()
    assert verdict.steps == documented
