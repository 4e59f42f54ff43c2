"""What tests need besides Python, and what happens where it is missing: no silent skips.

Its hooks are conftest.py's. A test that cannot run calls `missing`; the last lines of the run say
what was left out and why. Where `CI` is true there is no excuse: the test fails.
"""

import os
import re
from collections import Counter
from pathlib import Path
from typing import NoReturn

import pytest

NOT_INSTALLED = Path(".venv/missing-test-packages")

_MISSING = re.compile(r"Skipped: (.+) is missing: (.+)", re.DOTALL)


def missing(component: str, reason: str) -> NoReturn:
    """End this test because `component` is not here; the reason says what to do about it."""
    __tracebackhide__ = True
    if os.environ.get("CI", "").lower() in ("true", "1"):
        pytest.fail(f"{component} is missing: {reason}", pytrace=False)
    pytest.skip(f"{component} is missing: {reason}")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: takes minutes; run by `make test-long`")
    config.addinivalue_line("markers", "soak: also worth hours; run by `make soak`")
    config.addinivalue_line("markers", "alone: watches the clock; no other test runs beside it")


def pytest_unconfigure(config: pytest.Config) -> None:
    """Said here and not in the terminal's summary, so that they are the last words."""
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return  # a worker: its reports reach the process that has the terminal
    notes = NOT_INSTALLED.read_text().splitlines() if NOT_INSTALLED.exists() else []
    # From the reports, which workers send too.
    skips = [_MISSING.fullmatch(str(r.longrepr[2])) for r in reporter.stats.get("skipped", [])]
    left_out = Counter(skip.groups() for skip in skips if skip)
    if not (left_out or notes):
        return
    reporter.section("not run", yellow=True)
    for (component, reason), count in sorted(left_out.items()):
        reporter.line(f"tests without {component}: {count} ({reason})")
    for note in notes:
        reporter.line(f"package {note}")
