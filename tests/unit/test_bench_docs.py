"""The tables of the speed page show the results of the last `make bench`."""

import copy
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench import __main__ as bench
from bench import docs_table
from bench.figures import Figure


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


@pytest.mark.parametrize("is_complete", [True, False])
def test_partial_run_keeps_the_note_about_the_other_figures(
    results: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_complete: bool
) -> None:
    path = tmp_path / "results.json"
    path.write_text(json.dumps(results | {"conditions": {"note": "A note."}}))
    monkeypatch.setattr(bench, "RESULTS", path)
    monkeypatch.setattr(docs_table, "write", lambda *_: None)
    monkeypatch.setattr(bench, "import_module", lambda _: SimpleNamespace(draw=lambda _: None))
    figure = Figure(name="lone_caller", rounds=[1.05], goal=1.1, at_most=True)
    bench._write([figure], {"took_s": 1.0}, is_complete=is_complete)
    written = json.loads(path.read_text())
    assert ("note" in written["conditions"]) is not is_complete
    assert written["figures"]["lone_caller"]["median"] == 1.05
    assert written["figures"].keys() == results["figures"].keys()


def test_times_of_starts_come_first(results: Any) -> None:
    figures = copy.deepcopy(results["figures"])
    figures["first_call_docker_hot_ms"] = {"median": 7.25, "last_of_50_ms": 81}
    table = docs_table._felt_table(figures)
    assert "Docker: hot slot | median 7.25 ms; the last of 50 at once after 81 ms |" in table[2]
