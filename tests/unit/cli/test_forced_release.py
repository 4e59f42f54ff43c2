"""`botpool slot release --force` says what it risks and asks first; `pool show` names the node."""

import io

import httpx
import pytest

from tests.support.fake_api import botpool, fake_api, pool_json, slot_json

Captured = pytest.CaptureFixture[str]

LOST = {
    "status": "releasing",
    "phase": None,
    "unconfirmedReason": "node n3 is unreachable",
    "unconfirmedNode": "n3",
    "unconfirmedSince": "2026-03-01T10:04:00Z",
}


def answer(request: httpx.Request) -> httpx.Response:
    path = request.url.path
    if path.endswith("/history"):
        return httpx.Response(200, json={"events": []})
    if path == "/v1/slots":
        slots = [slot_json(**LOST), slot_json(id=2, name="pool-google-meet-002")]
        return httpx.Response(200, json={"slots": slots})
    if path.startswith("/v1/pools"):
        return httpx.Response(200, json={"pool": pool_json(unconfirmedStops=1)})
    return httpx.Response(200, json={"slot": slot_json(**LOST)})


def test_force_names_the_risk_and_needs_a_yes(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with fake_api(answer) as server:
        assert botpool("slot", "release", "1234", "--force") == 1
    assert [request.method for request in server.requests] == ["GET"], "nothing was released"
    err = capsys.readouterr().err
    assert "node n3 is unreachable since 2026-03-01T10:04:00Z" in err
    assert "cannot know whether the container still runs" in err


def test_force_with_yes_names_the_bot_that_was_shown(capsys: Captured) -> None:
    with fake_api(answer) as server:
        assert botpool("slot", "release", "1234", "--force", "--yes") == 0
    assert dict(server.requests[-1].url.params) == {"force": "true", "botId": "123456"}
    assert "may still run" in capsys.readouterr().out


def test_slot_and_pool_show_the_node_and_the_time(capsys: Captured) -> None:
    with fake_api(answer):
        assert botpool("slot", "show", "1234") == 0
        assert botpool("pool", "show", "google-meet") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert shown.count("node n3 is unreachable since 2026-03-01T10:04:00Z") == 2
    assert "pool-google-meet-002" not in shown
