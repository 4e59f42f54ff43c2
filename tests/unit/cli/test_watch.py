"""`botpool watch`: the screen at any size, and the state of its connection."""

import io
import json
from datetime import UTC, datetime
from typing import Any, cast

import httpx
import pytest
from rich.console import Console

from botpool.cli.output import console
from botpool.cli.watch.live_view import LiveView
from botpool.cli.watch.screen import TILES, Snapshot, screen
from botpool.client import Change, Client, Unauthorized
from botpool.domain.states import SlotStatus
from tests.support.fake_api import URL, botpool, fake_api, pool_json, slot_json
from tests.unit.cli.test_tables import pool, slot


def drawn(snapshot: Snapshot, *, width: int = 80, height: int = 24, colours: bool = False) -> str:
    out = Console(
        file=io.StringIO(), width=width, height=height, highlight=False,
        force_terminal=colours, color_system="truecolor" if colours else None,
    )  # fmt: skip
    out.print(screen(snapshot, width=width, height=height))
    return cast("io.StringIO", out.file).getvalue()


def change(n: int = 1, **fields: Any) -> Change:
    known: dict[str, Any] = {
        "at": datetime(2026, 3, 1, 12, tzinfo=UTC), "kind": "bot.status", "from_state": "QUEUED",
        "to_state": "DEPLOYING", "slot_name": None, "reason": "an idle slot was free", "data": None,
        "cursor": "1-1-1", "platform": "zoom", "bot_id": n, "slot_id": None, "correlation_id": "c",
    }  # fmt: skip
    return Change(**{**known, **fields})


def test_every_status_has_its_own_letter() -> None:
    assert set(TILES) == set(SlotStatus)
    assert len({letter for letter, _ in TILES.values()}) == len(TILES)


def test_screen_shows_tiles_figures_and_changes() -> None:
    statuses = ["busy", "deploying", "idle", "error", "releasing", "deleting"]
    slots = [slot(status=status) for status in statuses] + [
        slot(status=status, cordoned=True) for status in ("busy", "idle")
    ]
    shown = drawn(
        Snapshot(
            url="http://x", pools=[pool(drained=True), pool(platform="zoom", queueDepth=0)],
            slots=slots, age_s=61.0, changes=[change(7), change(kind="agent.x", to_state=None)],
        )
    )  # fmt: skip
    assert "B D · E R X b -" in shown
    assert "google-meet  100/100  1000   11 min" in shown, "a wait grows between two responses"
    assert "drained" in shown
    assert "● live" in shown
    assert "bot 7" in shown
    assert "QUEUED → DEPLOYING" in shown
    coloured = drawn(Snapshot(url="http://x", pools=[pool()], slots=slots), colours=True)
    assert coloured.count("\x1b[") > 2 * len(slots)


@pytest.mark.parametrize("width", [20, 80, 140])
def test_screen_fits_the_terminal(width: int) -> None:
    """With five hundred slots, many changes, and text with line breaks."""
    many = [slot(status="busy") for _ in range(500)]
    changes = [change(n, reason="x" * 300 + "\x1b[31m\nnext") for n in range(100)]
    failing = {"ok": False, "detail": "no\nroute " * 50}
    snapshot = Snapshot(
        url="http://x", pools=[pool(backendHealth=failing)], slots=many, changes=changes,
        problem="no route", down_for_s=7.0,
    )  # fmt: skip
    for height in (5, 24, 60):
        lines = drawn(snapshot, width=width, height=height).splitlines()
        assert len(lines) <= height
        assert all(len(line) <= width for line in lines)
        assert "\x1b" not in "".join(lines)
    if width > 20:
        whole = drawn(snapshot, width=width, height=60)
        assert whole.count("B") - whole.count("B busy") == 500 + 1, "all tiles, and the name"
        assert "○ not live for 7 s: no route" in whole
        assert "bot 99" in whole, "the newest changes are shown"


def events(*bodies: dict[str, Any]) -> httpx.Response:
    lines = (
        f"id: 1-1-{n}\nevent: change\ndata: {json.dumps(body)}\n\n" for n, body in enumerate(bodies)
    )
    return httpx.Response(200, text="".join(lines))


CHANGE = {
    "at": "2026-03-01T12:00:00Z", "kind": "slot.status", "platform": "zoom", "botId": 7,
    "slotId": 3, "slotName": "pool-zoom-003", "from": "deploying", "to": "busy",
    "reason": "observed running", "correlationId": "c", "data": None,
}  # fmt: skip


def test_view_follows_the_stream_and_reports_its_loss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("botpool.cli.watch.live_view._LOAD_INTERVAL_S", 0.0)
    streams = iter([events(CHANGE), httpx.ConnectError("refused")])

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/pools":
            return httpx.Response(200, json={"pools": [pool_json(platform="zoom")]})
        if request.url.path == "/v1/slots":
            return httpx.Response(200, json={"slots": [slot_json(platform="zoom", status="busy")]})
        following = next(streams, httpx.Response(401, json={"detail": "revoked"}))
        if isinstance(following, Exception):
            raise following
        return following

    with fake_api(answer), Client(URL, "bpk_test", attempts=1) as client:
        view = LiveView(client)
        snapshots: list[Snapshot] = []
        with pytest.raises(Unauthorized, match="revoked"):
            snapshots.extend(view.next_snapshot() for _ in range(100))
    last = snapshots[-1]
    assert [each.reason for each in last.changes] == ["observed running"]
    assert any(each.problem is None or "ended the stream" in each.problem for each in snapshots)
    assert last.problem is not None, "the view is not live after the server has gone"


def test_each_change_is_a_line_without_a_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert not console().is_terminal
    streams = iter([events(CHANGE, {**CHANGE, "to": "releasing", "reason": "a\nb"})])

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/v1/pools":
            return httpx.Response(200, json={"pools": []})
        return next(streams, httpx.Response(401, json={"detail": "revoked"}))

    with fake_api(answer):
        assert botpool("watch") == 1
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert len(lines) == 2
    assert "zoom-003" in lines[0]
    assert "deploying → busy" in lines[0]
    assert lines[1].endswith("a b")
    assert "does not accept the key" in err
