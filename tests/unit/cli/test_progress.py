"""Progress bars, and log lines that are written while a bar is shown."""

import io
import re
import sys
from collections.abc import Iterator

import pytest
import structlog
from rich.console import Console

from botpool import logs
from botpool.cli.progress import bar


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def logged() -> Iterator[structlog.stdlib.BoundLogger]:
    logs.configure(for_people=True)
    yield structlog.get_logger()
    structlog.reset_defaults()


def test_log_line_appears_above_the_bar(
    monkeypatch: pytest.MonkeyPatch, logged: structlog.stdlib.BoundLogger
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with bar(Console(file=terminal, force_terminal=True, width=80), "Stopping bots") as update:
        update(0, 2)
        logged.info("slot.stopped")
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue())
    (line,) = [line for line in re.split(r"[\r\n]", text) if "slot.stopped" in line]
    assert re.fullmatch(r"\d\d:\d\d:\d\d slot\.stopped *", line)


def test_log_file_gets_its_lines_while_a_bar_is_shown(
    monkeypatch: pytest.MonkeyPatch, logged: structlog.stdlib.BoundLogger
) -> None:
    terminal, file = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    with bar(Console(file=terminal, force_terminal=True), "Stopping bots"):
        logged.info("slot.stopped")
    assert "slot.stopped" in file.getvalue()
    assert "slot.stopped" not in terminal.getvalue()


def test_bar_appears_only_on_a_terminal() -> None:
    for terminal in (True, False):
        file = io.StringIO()
        with bar(Console(file=file, force_terminal=terminal), "Bots leave") as update:
            update(2, 8, "Bots [x] leave")
        assert ("2 of 8" in file.getvalue()) is terminal
        assert ("Bots [x] leave" in file.getvalue()) is terminal
