"""Tables fit the terminal, can be read without colour, and cannot be steered by what they show."""

import io
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from rich.console import Console, RenderableType

from botpool.cli import details, shapes, tables
from botpool.cli.output import console
from tests.unit.cli.answering import bot

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def drawn(part: RenderableType, width: int = 80) -> list[str]:
    out = Console(file=io.StringIO(), width=width, highlight=False, markup=False)
    out.print(part)
    return [line.rstrip() for line in cast("io.StringIO", out.file).getvalue().splitlines()]


def slot(**fields: Any) -> shapes.Slot:
    return cast(
        "shapes.Slot",
        {
            "id": 1234,
            "name": "pool-google-meet-001",
            "platform": "google-meet",
            "status": "deploying",
            "phase": "waiting_for_image",
            "assignedBotId": 123456,
            "containerId": None,
            "image": "bot:1",
            "lastAssignedAt": None,
            "lastReleasedAt": None,
            "lastUsedAt": "2026-03-01T11:10:00Z",
            "recoveryAttempts": 0,
            "skippedRecoveries": 0,
            "errorMessage": None,
            "cordoned": False,
            "createdAt": "2026-03-01T10:00:00Z",
            **fields,
        },
    )


def pool(**fields: Any) -> shapes.Pool:
    return cast(
        "shapes.Pool",
        {
            "platform": "google-meet",
            "backend": "process",
            "backendHealth": {"ok": True, "detail": ""},
            "image": "bot:1",
            "size": 100,
            "maxSize": 100,
            "slotsByStatus": {"idle": 10, "busy": 90},
            "queueDepth": 1000,
            "oldestWaitMs": 599_000,
            "warmHitRatio": 0.934,
            "timeToRunningP50Ms": 30_100,
            "timeToRunningP95Ms": 420_000,
            "drained": False,
            **fields,
        },
    )


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


def test_the_widest_bots_fit_80_columns_and_only_their_names_give_way() -> None:
    header, waiting, failed = drawn(tables.bots(cast("list[shapes.Bot]", WIDEST), NOW))
    assert max(map(len, (header, waiting, failed))) <= 80
    assert waiting.split()[:4] == ["123456", "IN_WAITING_ROOM", "google-meet", "001"]
    assert "50 min ago" in failed
    assert failed.endswith("container_exited")


def test_a_wider_terminal_shows_more_of_a_name() -> None:
    rows = [tables.bots(cast("list[shapes.Bot]", WIDEST), NOW)]
    assert len(drawn(rows[0], 120)[1]) > len(drawn(rows[0], 80)[1])


@pytest.mark.parametrize(
    "part",
    [
        tables.slots([slot(cordoned=True, errorMessage="a message as long as the road home")], NOW),
        tables.pools([pool(backendHealth={"ok": False, "detail": "gone"})]),
        tables.queue(
            [
                {
                    "botId": 123456,
                    "platform": "google-meet",
                    "priority": -1000,
                    "position": 1000,
                    "queuedAt": "2026-03-01T11:10:00Z",
                    "timeoutAt": "2026-03-01T12:10:00Z",
                    "estimatedWaitMs": None,
                }
            ],
            NOW,
        ),
    ],
)
def test_other_listings_fit_80_columns_in_one_line_each(part: RenderableType) -> None:
    lines = drawn(part)
    assert len(lines) == 2
    assert max(map(len, lines)) <= 80


def test_states_are_words_and_not_only_colours() -> None:
    assert drawn(tables.pools([pool(drained=True)]))[1].endswith("drained")
    assert drawn(tables.pools([pool(backendHealth={"ok": False, "detail": ""})]))[1].endswith(
        "failing"
    )
    assert "cordoned" in drawn(tables.slots([slot(cordoned=True)], NOW), 120)[1]


def test_what_a_container_says_cannot_steer_the_terminal() -> None:
    evil = "\x1b[2J\x1b]0;owned\x07[bold red]not markup[/]\r\nsecond\u202e line"
    answer = cast(
        "shapes.BotAnswer",
        {"bot": bot(status="FAILED", failureCode="meeting_failed", failureReason=evil)},
    )
    text = "\n".join([*drawn(details.bot(answer, NOW), 200), details.bot_line(answer).plain])
    assert not {"\x1b", "\x07", "\r", "\u202e"} & set(text)
    assert "[bold red]not markup[/] second line" in text


def test_a_bot_in_a_line() -> None:
    def line(**more: Any) -> str:
        queue = {name: more.pop(name) for name in list(more) if name.startswith(("queueP", "est"))}
        return details.bot_line(cast("shapes.BotAnswer", {"bot": bot(**more), **queue})).plain

    assert line() == "Bot 7 IN_CALL in pool-google-meet-001"
    assert line(status="DONE") == "Bot 7 DONE"
    assert line(status="QUEUED", slotName=None, queuePosition=3, estimatedWaitMs=40_000) == (
        "Bot 7 QUEUED, number 3 in the queue, about 40 s to wait"
    )
    assert line(status="FAILED", failureCode="operator", failureReason="So it was.") == (
        "Bot 7 FAILED operator: So it was."
    )


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_no_color_means_no_escape_sequence_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    listed = tables.bots(cast("list[shapes.Bot]", WIDEST), NOW)
    coloured, plain = Terminal(), Terminal()
    console(coloured).print(listed)
    monkeypatch.setenv("NO_COLOR", "1")
    console(plain).print(listed)
    assert "\x1b[" in coloured.getvalue()
    assert "\x1b" not in plain.getvalue()


def test_a_pipe_gets_whole_lines_without_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    pipe = io.StringIO()
    console(pipe).print(tables.slots([slot(errorMessage="x" * 200)], NOW))
    assert "x" * 200 in pipe.getvalue()
    assert "\x1b" not in pipe.getvalue()
