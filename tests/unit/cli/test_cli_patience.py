"""What takes its time: a pool that empties, output that is followed, bars."""

import io
from typing import Any

import httpx
import pytest
from rich.console import Console

from botpool.cli.progress import bar
from tests.unit.cli.answering import answered_by, botpool, problem
from tests.unit.cli.test_cli_tables import pool

Captured = pytest.CaptureFixture[str]


def emptying(*counts: int, drained: bool = True) -> Any:
    """A pool with so many bots, one answer after the other."""
    left = iter(counts)

    def answer(_: httpx.Request) -> httpx.Response:
        count = next(left)
        if count < 0:
            return problem(503, "The database does not answer.")
        slots = {"busy": count, "releasing": 0, "idle": 3}
        return httpx.Response(200, json={"pool": pool(slotsByStatus=slots, drained=drained)})

    return answer


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("botpool.cli.draining._LOOK_S", 0)


def test_drain_waits_until_the_last_bot_has_left(capsys: Captured) -> None:
    with answered_by(emptying(3, 3, -1, 1, 0)) as server:
        assert botpool("pool", "drain", "google-meet", "--wait") == 0
    assert [request.method for request in server.requests] == ["POST", "GET", "GET", "GET", "GET"]
    out, err = capsys.readouterr()
    assert out == "Pool google-meet is drained, and no bot is left in it.\n"
    assert err.splitlines() == [
        "3 of 3 slots still have a bot",
        "1 of 3 slots still have a bot",
    ]


def test_drain_without_it_does_not_wait(capsys: Captured) -> None:
    with answered_by(emptying(3)):
        assert botpool("pool", "drain", "google-meet") == 0
    assert "admits no new bots" in capsys.readouterr().out


def test_drain_says_when_somebody_else_opens_the_pool(capsys: Captured) -> None:
    with answered_by(emptying(3, 3, drained=False)):
        assert botpool("pool", "drain", "google-meet", "--wait") == 1
    assert "opened again by somebody else" in capsys.readouterr().err


def test_output_is_followed(capsys: Captured) -> None:
    with answered_by(lambda _: httpx.Response(200, content=iter([b"one\n", b"two\n"]))) as server:
        assert botpool("bot", "logs", "7", "--follow", "--tail", "5") == 0
    assert capsys.readouterr().out == "one\ntwo\n"
    assert dict(server.requests[0].url.params) == {"tail": "5", "follow": "true"}
    assert server.requests[0].extensions["timeout"]["read"] is None


def test_bars_are_for_terminals() -> None:
    for terminal in (True, False):
        file = io.StringIO()
        with bar(Console(file=file, force_terminal=terminal), "Bots leave") as shown:
            shown.tell(2, 8, "Bots [x] leave")
        assert ("2 of 8" in file.getvalue()) is terminal
        assert ("Bots [x] leave" in file.getvalue()) is terminal
