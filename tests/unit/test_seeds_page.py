"""The page of the seeds: every row names a test or a decision, and all that it names exists."""

import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reference" / "seeds.md"
SEEDS = ("000", "001", "002", "003", "004")
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(test_\w+)`")
_FILE = re.compile(r"`((?:docs/)?[\w/.-]+/[\w.-]+\.(?:py|sql|md))`")
_LINK = re.compile(r"\]\((\.\./[\w/.-]+\.md)\)")


@cache
def rows() -> dict[str, str]:
    """Return the last column of each row by the row's number."""
    found = re.findall(r"^\| (\d{3}-\d{2}) \| .+ \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    assert len(found) == len(dict(found)), "a row's number is not unique"
    return dict(found)


def test_page_has_the_rows_of_every_seed() -> None:
    assert len(rows()) >= 190
    for seed in SEEDS:
        numbers = [int(row[4:]) for row in rows() if row.startswith(seed)]
        assert numbers == list(range(1, len(numbers) + 1)), f"seed {seed} has a gap"
        assert numbers
    lines = [line for line in PAGE.read_text().splitlines() if re.match(r"\| 00\d-", line)]
    assert len(lines) == len(rows()), "a row does not have three columns"


@pytest.mark.parametrize("row", rows())
def test_row_names_tests_files_and_decisions_that_exist(row: str) -> None:
    where = rows()[row]
    tests, decisions = _TEST.findall(where), _LINK.findall(where)
    assert tests or decisions, "the row names neither a test nor a decision"
    for file, test in tests:
        assert re.search(rf"def {test}\(", (ROOT / file).read_text()), f"{file} has no {test}"
    for file in _FILE.findall(where):
        folder = ROOT if file.startswith("docs/") else ROOT / "src" / "botpool"
        assert (folder / file).is_file(), f"there is no {file}"
    for link in decisions:
        assert (PAGE.parent / link).is_file(), f"there is no decision {link}"
    if "departs" in where:
        assert decisions, "a departure names its decision"
