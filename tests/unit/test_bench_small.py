"""`make bench ARGS=--small`, as `make test` runs it: when it fails, and what it leaves out."""

import sys
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from bench import __main__ as bench
from bench.figures import Figure


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """What the one measure will find, without a server to find it on."""
    figures: list[Figure] = []
    monkeypatch.setattr(sys, "argv", ["bench", "--small", "growth"])
    monkeypatch.setattr(bench, "prepared", lambda *_, **__: nullcontext())
    monkeypatch.setattr(
        bench, "import_module", lambda _: SimpleNamespace(measure=lambda _: figures)
    )
    monkeypatch.setattr(bench.structlog, "configure", lambda **_: None)
    return figures


@pytest.mark.parametrize(("median", "code"), [(0.6, 0), (0.4, 1)])
def test_a_figure_worse_than_half_of_its_goal_fails_it(
    measured: list[Figure], capsys: pytest.CaptureFixture[str], median: float, code: int
) -> None:
    measured += [
        Figure(name="one", rounds=[median], goal=1),
        Figure(name="another", rounds=[1], goal=1),
    ]
    assert bench.main() == code
    assert ("Worse than is tolerated: one." in capsys.readouterr().out) is bool(code)


def test_a_busy_machine_gets_less_of_it_and_is_told(
    measured: list[Figure], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "ENOUGH_S", -1)
    measured.append(Figure(name="one", rounds=[0.1], goal=1))
    assert bench.main() == 0
    assert "growth: left out" in capsys.readouterr().out
