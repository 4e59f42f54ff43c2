"""Bars and the lines that are logged while they are shown: each on a line of its own."""

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


def test_a_line_that_is_logged_stands_above_the_bar(
    monkeypatch: pytest.MonkeyPatch, logged: structlog.stdlib.BoundLogger
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with bar(Console(file=terminal, force_terminal=True, width=80), "Stopping bots") as shown:
        shown.tell(0, 2)
        logged.info("slot.stopped")
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", terminal.getvalue())
    (line,) = [line for line in re.split(r"[\r\n]", text) if "slot.stopped" in line]
    assert re.fullmatch(r"\d\d:\d\d:\d\d slot\.stopped *", line)


def test_what_is_logged_into_a_file_goes_there_also_beside_a_bar(
    monkeypatch: pytest.MonkeyPatch, logged: structlog.stdlib.BoundLogger
) -> None:
    terminal, file = Terminal(), io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    with bar(Console(file=terminal, force_terminal=True), "Stopping bots"):
        logged.info("slot.stopped")
    assert "slot.stopped" in file.getvalue()
    assert "slot.stopped" not in terminal.getvalue()
