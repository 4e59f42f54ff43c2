"""Commands that wait: for a drained pool, and for the output of a container."""

from typing import Any

import httpx
import pytest

from tests.support.fake_api import botpool, fake_api, pool_json, problem

Captured = pytest.CaptureFixture[str]


def emptying(*counts: int, drained: bool = True) -> Any:
    """A pool with these numbers of bots, in turn; -1 is an outage."""
    left = iter(counts)

    def answer(_: httpx.Request) -> httpx.Response:
        count = next(left)
        if count < 0:
            return problem(503, "The database does not answer.")
        slots = {"busy": count, "releasing": 0, "idle": 3}
        return httpx.Response(200, json={"pool": pool_json(slotsByStatus=slots, drained=drained)})

    return answer


def test_drain_wait_returns_when_no_slot_has_a_bot(capsys: Captured) -> None:
    with fake_api(emptying(3, 3, -1, 1, 0)) as server:
        assert botpool("pool", "drain", "google-meet", "--wait") == 0
    assert [request.method for request in server.requests] == ["POST", "GET", "GET", "GET", "GET"]
    out, err = capsys.readouterr()
    assert out == "Pool google-meet is drained, and none of its slots has a bot.\n"
    assert err.splitlines() == [
        "3 of 3 slots still have a bot",
        "1 of 3 slots still have a bot",
    ]


def test_drain_without_wait_returns_at_once(capsys: Captured) -> None:
    with fake_api(emptying(3)):
        assert botpool("pool", "drain", "google-meet") == 0
    assert "admits no new bots" in capsys.readouterr().out


def test_drain_wait_fails_when_the_pool_is_undrained(capsys: Captured) -> None:
    with fake_api(emptying(3, 3, drained=False)):
        assert botpool("pool", "drain", "google-meet", "--wait") == 1
    assert "an operator undrained it" in capsys.readouterr().err


def test_logs_follow_has_no_read_timeout(capsys: Captured) -> None:
    with fake_api(lambda _: httpx.Response(200, content=iter([b"one\n", b"two\n"]))) as server:
        assert botpool("bot", "logs", "7", "--follow", "--tail", "5") == 0
    assert capsys.readouterr().out == "one\ntwo\n"
    assert dict(server.requests[0].url.params) == {"tail": "5", "follow": "true"}
    assert server.requests[0].extensions["timeout"]["read"] is None
