"""The docs say what the code does: drawings, written pages, links."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from botpool.domain.states import BOT_TRANSITIONS, FINAL, RUNNING, SLOT_TRANSITIONS

ROOT = Path(__file__).parents[2]
STATES = ROOT / "docs" / "explanation" / "states.md"


def drawn(index: int) -> set[tuple[str, str]]:
    drawing = re.findall(r"```mermaid\n(.*?)```", STATES.read_text(), re.DOTALL)[index]
    return {
        (old, new)
        for old, new in re.findall(r"(\S+) --> (\w+|\[\*\])", drawing)
        if "[*]" not in (old, new)
    }


def test_the_slots_drawing_is_its_table() -> None:
    assert drawn(0) == {(old, new) for old, targets in SLOT_TRANSITIONS.items() for new in targets}


def test_the_bots_drawing_and_its_text_are_its_table() -> None:
    told = {(old, "DONE") for old in RUNNING} | {
        (old, end) for old in BOT_TRANSITIONS if old not in FINAL for end in ("FAILED", "CANCELLED")
    }
    table = {(old, new) for old, targets in BOT_TRANSITIONS.items() for new in targets}
    assert drawn(1) | told == table


@pytest.mark.parametrize(
    "name",
    ["api-reference", "cli-reference", "doctor-table", "recovery-table", "settings-reference"],
)
def test_a_written_page_is_what_the_code_is(name: str) -> None:
    written = runpy.run_path(str(ROOT / "scripts" / name))
    assert written["PAGE"].read_text() == written["page"](), f"run scripts/{name}"


def test_the_site_is_built_without_a_broken_link_and_asks_nobody(tmp_path: Path) -> None:
    sphinx = [sys.executable, "-m", "sphinx", "-q", "-n", "-W", "--keep-going", "-b", "html"]
    built = subprocess.run(
        [*sphinx, "-d", tmp_path / "trees", ROOT / "docs", tmp_path / "site"],
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    for page in (tmp_path / "site").rglob("*.html"):
        assert not re.findall(r'(?:src|<link[^>]*href)="(?:https?:)?//[^"]*', page.read_text())


def test_the_readme_links_to_what_is_there() -> None:
    links = re.findall(r"]\(((?!http)[^)#]+)", (ROOT / "README.md").read_text())
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
