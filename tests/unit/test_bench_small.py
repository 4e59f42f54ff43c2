"""`make bench ARGS=--small`, as `make test` runs it: its exit code and skipped measures."""

import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from bench import __main__ as bench
from bench.figures import Figure


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that the one measure returns, without a database."""
    figures: list[Figure] = []
    monkeypatch.setattr(sys, "argv", ["bench", "--small", "growth"])
    monkeypatch.setattr(bench, "started", lambda *_, **__: nullcontext())
    monkeypatch.setattr(
        bench, "import_module", lambda _: SimpleNamespace(measure=lambda _: figures)
    )
    monkeypatch.setattr(bench.structlog, "configure", lambda **_: None)
    return figures


@pytest.mark.parametrize(("median", "code"), [(0.6, 0), (0.4, 1)])
def test_figure_outside_its_tolerance_fails_the_run(
    measured: list[Figure], capsys: pytest.CaptureFixture[str], median: float, code: int
) -> None:
    measured += [
        Figure(name="one", rounds=[median], goal=1),
        Figure(name="another", rounds=[1], goal=1),
    ]
    assert bench.main() == code
    assert ("Outside the tolerance: one." in capsys.readouterr().out) is bool(code)


def test_busy_machine_skips_measures_and_reports_it(
    measured: list[Figure], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "SMALL_RUN_S", -1)
    measured.append(Figure(name="one", rounds=[0.1], goal=1))
    assert bench.main() == 0
    assert "growth: skipped" in capsys.readouterr().out


def test_full_run_without_the_library_for_pictures_measures_nothing(
    measured: list[Figure], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def import_module(name: str) -> object:
        if name == "bench.pictures":
            raise ModuleNotFoundError(name="matplotlib")
        return SimpleNamespace(measure=lambda _: pytest.fail("measured"))

    monkeypatch.setattr(sys, "argv", ["bench", "growth"])
    monkeypatch.setattr(bench, "import_module", import_module)
    with pytest.raises(SystemExit):
        bench.main()
    assert "matplotlib is not installed; run 'make bench'" in capsys.readouterr().err
