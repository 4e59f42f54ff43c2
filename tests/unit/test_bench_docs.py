"""The tables of the speed page show the results of the last `make bench`."""

import copy
import json
from typing import Any

import pytest

from bench import __main__ as bench
from bench import docs_table


@pytest.fixture
def results() -> Any:
    return json.loads(bench.RESULTS.read_text())


def test_speed_page_shows_the_recorded_results(results: Any) -> None:
    page = docs_table.PAGE.read_text()
    assert docs_table.page_with(page, results["conditions"], results["figures"]) == page


def test_new_results_renew_both_tables(results: Any) -> None:
    page = docs_table.PAGE.read_text()
    figures = copy.deepcopy(results["figures"])
    figures["handover_p99_vs_poll"] |= {"median": 0.0777, "p50_ms": 12.3}
    figures["admit_http_vs_noop"] |= {"median": 0.123, "reached": False}
    renewed = docs_table.page_with(page, results["conditions"], figures)
    changed = set(renewed.splitlines()) - set(page.splitlines())
    assert len(changed) == 3
    assert any("median 12.3 ms" in line for line in changed)
    assert any("| 0.0777 |" in line for line in changed)
    assert any("| 0.123 |" in line and "**no**" in line for line in changed)


def test_next_run_removes_the_note_about_the_last_one(results: Any) -> None:
    conditions = results["conditions"] | {"note": "A note."}
    page = docs_table.page_with(docs_table.PAGE.read_text(), conditions, results["figures"])
    assert "A note." in page
    conditions.pop("note")
    assert "A note." not in docs_table.page_with(page, conditions, results["figures"])
