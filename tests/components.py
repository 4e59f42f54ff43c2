"""What tests need besides Python, and what happens where it is missing: no silent skips.

Its hooks are conftest.py's. A test that cannot run
calls `missing`; the last lines of the run say what was left out and why. Where `CI` is true there
is no excuse: the test fails.
"""

import os
from collections import Counter
from pathlib import Path
from typing import NoReturn

import pytest

NOT_INSTALLED = Path(".venv/missing-test-packages")

_left_out: Counter[tuple[str, str]] = Counter()


def missing(component: str, reason: str) -> NoReturn:
    """End this test because `component` is not here; the reason says what to do about it."""
    __tracebackhide__ = True
    if os.environ.get("CI", "").lower() in ("true", "1"):
        pytest.fail(f"{component} is missing: {reason}", pytrace=False)
    _left_out[component, reason] += 1
    pytest.skip(f"{component} is missing: {reason}")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: takes minutes; run by `make test-long`")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Said here and not in the terminal's summary, so that they are the last words."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    notes = NOT_INSTALLED.read_text().splitlines() if NOT_INSTALLED.exists() else []
    if reporter is None or not (_left_out or notes):
        return
    reporter.section("not run", yellow=True)
    for (component, reason), count in sorted(_left_out.items()):
        reporter.line(f"tests without {component}: {count} ({reason})")
    for note in notes:
        reporter.line(f"package {note}")
