"""The drawings in the docs show the tables that the code runs by."""

import re
import runpy
from pathlib import Path

from botpool.domain.states import BOT_MOVES, FINAL, RUNNING, SLOT_MOVES

STATES = Path(__file__).parents[2] / "docs" / "explanation" / "states.md"


def drawn(index: int) -> set[tuple[str, str]]:
    drawing = re.findall(r"```mermaid\n(.*?)```", STATES.read_text(), re.DOTALL)[index]
    return {
        (old, new)
        for old, new in re.findall(r"(\S+) --> (\w+|\[\*\])", drawing)
        if "[*]" not in (old, new)
    }


def test_the_slots_drawing_is_its_table() -> None:
    assert drawn(0) == {(old, new) for old, targets in SLOT_MOVES.items() for new in targets}


def test_the_bots_drawing_and_its_text_are_its_table() -> None:
    told = {(old, "DONE") for old in RUNNING} | {
        (old, end) for old in BOT_MOVES if old not in FINAL for end in ("FAILED", "CANCELLED")
    }
    table = {(old, new) for old, targets in BOT_MOVES.items() for new in targets}
    assert drawn(1) | told == table


def test_the_settings_page_is_what_the_settings_are() -> None:
    script = Path(__file__).parents[2] / "scripts" / "settings-reference"
    written = runpy.run_path(str(script))
    assert written["PAGE"].read_text() == written["page"](), "run scripts/settings-reference"


def test_the_recovery_page_is_what_the_rules_are() -> None:
    script = Path(__file__).parents[2] / "scripts" / "recovery-table"
    written = runpy.run_path(str(script))
    assert written["PAGE"].read_text() == written["page"](), "run scripts/recovery-table"
