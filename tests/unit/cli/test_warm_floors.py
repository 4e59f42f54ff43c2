"""Hot slots and warm floors on the command line."""

import httpx
import pytest

from tests.support.fake_api import botpool, fake_api, pool_json, slot_json

Captured = pytest.CaptureFixture[str]

WARM = {
    "hotTarget": 10,
    "hotReady": 8,
    "hotStarting": 2,
    "idleTarget": 30,
    "idleReady": 25,
    "reason": "window Mon-Fri 08:50-18:00 Europe/Berlin",
    "problem": "bots wait for slots and go first",
}
HOT = {
    "status": "idle",
    "phase": None,
    "assignedBotId": None,
    "standby": "ready",
    "standbySince": "2026-03-01T11:00:00Z",
}


def answer(request: httpx.Request) -> httpx.Response:
    path = request.url.path
    if path.endswith("/history"):
        return httpx.Response(200, json={"events": []})
    if path.startswith("/v1/pools"):
        return httpx.Response(200, json={"pool": pool_json(warm=WARM)})
    if path == "/v1/slots":
        return httpx.Response(200, json={"slots": [slot_json(**HOT)]})
    return httpx.Response(200, json={"slot": slot_json(**HOT)})


def test_pool_shows_target_actual_number_and_reason(capsys: Captured) -> None:
    with fake_api(answer):
        assert botpool("pool", "show", "google-meet") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "hot slots 8 of 10, 2 starting ready slots 25 of 30" in shown
    assert "target: window Mon-Fri 08:50-18:00 Europe/Berlin" in shown
    assert "bots wait for slots and go first" in shown


def test_slot_shows_its_standby(capsys: Captured) -> None:
    with fake_api(answer):
        assert botpool("slot", "show", "1234") == 0
        assert botpool("slot", "list") == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "standby ready, since 2026-03-01" in shown
    assert shown.count("standby ready") == 2
