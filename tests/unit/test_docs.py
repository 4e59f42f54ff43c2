"""The documentation agrees with the code: diagrams, generated pages, links."""

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


def test_slot_diagram_shows_every_transition() -> None:
    assert drawn(0) == {(old, new) for old, targets in SLOT_TRANSITIONS.items() for new in targets}


def test_bot_diagram_and_text_show_every_transition() -> None:
    described = {(old, "DONE") for old in RUNNING} | {
        (old, end) for old in BOT_TRANSITIONS if old not in FINAL for end in ("FAILED", "CANCELLED")
    }
    table = {(old, new) for old, targets in BOT_TRANSITIONS.items() for new in targets}
    assert drawn(1) | described == table


@pytest.mark.parametrize(
    "name",
    ["api-reference", "cli-reference", "doctor-table", "recovery-table", "settings-reference"],
)
def test_generated_page_is_up_to_date(name: str) -> None:
    written = runpy.run_path(str(ROOT / "scripts" / name))
    assert written["PAGE"].read_text() == written["page"](), f"run scripts/{name}"


def test_site_builds_without_broken_links_or_outside_requests(tmp_path: Path) -> None:
    sphinx = [sys.executable, "-m", "sphinx", "-q", "-n", "-W", "--keep-going", "-b", "html"]
    built = subprocess.run(
        [*sphinx, "-d", tmp_path / "trees", ROOT / "docs", tmp_path / "site"],
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    for page in (tmp_path / "site").rglob("*.html"):
        assert not re.findall(r'(?:src|<link[^>]*href)="(?:https?:)?//[^"]*', page.read_text())


def test_readme_links_exist() -> None:
    links = re.findall(r"]\(((?!http)[^)#]+)", (ROOT / "README.md").read_text())
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_every_picture_of_the_docs_exists_and_is_shown() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    shown = {
        name for page in pages for name in re.findall(r"pictures/([\w/.-]+)", page.read_text())
    }
    folder = ROOT / "docs" / "pictures"
    assert shown == {str(path.relative_to(folder)) for path in folder.rglob("*.*")}
