"""Tables fit the terminal, need no colours, and contain no control characters."""

import io
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from rich.console import Console, RenderableType

from botpool.cli import details, tables
from botpool.cli.output import console
from botpool.client import Bot, Pool, QueueEntry, Slot
from botpool.client.records import read
from tests.support.fake_api import bot_json, pool_json, queue_entry_json, slot_json

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def drawn(part: RenderableType, width: int = 80) -> list[str]:
    out = Console(file=io.StringIO(), width=width, highlight=False, markup=False)
    out.print(part)
    return [line.rstrip() for line in cast("io.StringIO", out.file).getvalue().splitlines()]


def slot(**fields: Any) -> Slot:
    return read(Slot, slot_json(**fields))


def pool(**fields: Any) -> Pool:
    return read(Pool, pool_json(**fields))


def bot(bot_id: int = 7, **fields: Any) -> Bot:
    return read(Bot, bot_json(bot_id, **fields))


WIDEST = [
    bot(123456, status="IN_WAITING_ROOM", botDisplayName="A name that goes on and on"),
    bot(
        123457,
        status="FAILED",
        failureCode="container_exited",
        createdAt="2026-03-01T11:10:00Z",
        botDisplayName="A name that goes on and on",
    ),
]


def test_bots_fit_80_columns_with_shortened_names() -> None:
    header, waiting, failed = drawn(tables.bots(WIDEST, NOW))
    assert max(map(len, (header, waiting, failed))) <= 80
    assert waiting.split()[:4] == ["123456", "IN_WAITING_ROOM", "google-meet", "001"]
    assert "50 min ago" in failed
    assert failed.endswith("container_exited")


def test_wider_terminal_shows_more_of_a_name() -> None:
    rows = [tables.bots(WIDEST, NOW)]
    assert len(drawn(rows[0], 120)[1]) > len(drawn(rows[0], 80)[1])


@pytest.mark.parametrize(
    "part",
    [
        tables.slots([slot(cordoned=True, errorMessage="a message as long as the road home")], NOW),
        tables.pools([pool(backendHealth={"ok": False, "detail": "gone"})]),
        tables.queue([read(QueueEntry, queue_entry_json())], NOW),
    ],
)
def test_other_lists_fit_80_columns_in_one_line_each(part: RenderableType) -> None:
    lines = drawn(part)
    assert len(lines) == 2
    assert max(map(len, lines)) <= 80


def test_states_are_words() -> None:
    assert drawn(tables.pools([pool(drained=True)]))[1].endswith("drained")
    assert drawn(tables.pools([pool(removed=True)]))[1].endswith("removed")
    assert drawn(tables.pools([pool(backendHealth={"ok": False, "detail": ""})]))[1].endswith(
        "failing"
    )
    assert "cordoned" in drawn(tables.slots([slot(cordoned=True)], NOW), 120)[1]


def test_control_characters_of_a_container_are_removed() -> None:
    evil = "\x1b[2J\x1b]0;owned\x07[bold red]not markup[/]\r\nsecond\u202e line"
    failed = bot(status="FAILED", failureCode="meeting_failed", failureReason=evil)
    text = "\n".join([*drawn(details.bot(failed, NOW), 200), details.bot_line(failed).plain])
    assert not {"\x1b", "\x07", "\r", "\u202e"} & set(text)
    assert "[bold red]not markup[/] second line" in text


def test_bot_shows_what_its_heartbeats_said_last() -> None:
    shown = bot(stalled=True, progress={"bytes": 7}, lastMediaAt="2026-03-01T11:59:00Z")
    rows = [" ".join(line.split()) for line in drawn(details.bot(shown, NOW))]
    assert "stalled in the call and alive, but records nothing" in rows
    assert 'progress {"bytes": 7}' in rows
    assert any(row.startswith("last media ") and "1 min" in row for row in rows), rows


def test_bot_line() -> None:
    def line(**fields: Any) -> str:
        return details.bot_line(bot(**fields)).plain

    assert line() == "Bot 7 IN_CALL in pool-google-meet-001"
    assert line(status="DONE") == "Bot 7 DONE"
    assert line(status="QUEUED", slotName=None, queuePosition=3, estimatedWaitMs=40_000) == (
        "Bot 7 QUEUED, number 3 in the queue, estimated wait 40 s"
    )
    assert line(status="FAILED", failureCode="operator", failureReason="So it was.") == (
        "Bot 7 FAILED operator: So it was."
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_no_color_removes_all_escape_sequences(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    listed = tables.bots(WIDEST, NOW)
    coloured, plain = Terminal(), Terminal()
    console(coloured).print(listed)
    monkeypatch.setenv("NO_COLOR", "1")
    console(plain).print(listed)
    assert "\x1b[" in coloured.getvalue()
    assert "\x1b" not in plain.getvalue()


def test_pipe_gets_complete_lines_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    pipe = io.StringIO()
    console(pipe).print(tables.slots([slot(errorMessage="x" * 200)], NOW))
    assert "x" * 200 in pipe.getvalue()
    assert "\x1b" not in pipe.getvalue()
