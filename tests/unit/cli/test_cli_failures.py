"""Whatever goes wrong, one line on standard error says what it is and what to do."""

import httpx
import pytest

from botpool.cli import main
from tests.unit.cli.answering import URL, Handler, answered_by, bot, botpool, problem

Captured = pytest.CaptureFixture[str]


def said(capsys: Captured) -> str:
    """The one line; standard output stays empty."""
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("botpool: ")
    assert err.count("\n") == 1
    return err


def refused(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("All connection attempts failed") from ConnectionRefusedError(
        111, "Connection refused"
    )


def silent(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadTimeout("timed out")


def cut_off(request: httpx.Request) -> httpx.Response:
    raise httpx.RemoteProtocolError("Server disconnected without sending a response.")


@pytest.mark.parametrize(
    ("handler", "code", "words"),
    [
        (refused, 1, ["No Botpool answers at", URL, "connection refused", "botpool up", "--url"]),
        (silent, 1, [URL, "none within 30 s"]),
        (cut_off, 1, [URL, "disconnected"]),
        (lambda _: problem(401, "no"), 1, ["--key", "BOTPOOL_API_KEY", "botpool key create"]),
        (lambda _: problem(403, "This needs 'operator'."), 1, ["This needs 'operator'."]),
        (lambda _: problem(404, "There is no bot 7."), 1, ["There is no bot 7."]),
        (lambda _: problem(500, "It was logged."), 1, ["It was logged."]),
        (lambda _: httpx.Response(502, text="<html>Bad gateway"), 1, ["HTTP 502", "--url"]),
        (lambda _: httpx.Response(200, text="Welcome!"), 1, ["not as this Botpool", "version"]),
        (lambda _: httpx.Response(200, json={"bot": {"id": 1}}), 1, ["without bot.correlationId"]),
        (lambda _: httpx.Response(302, headers={"location": "/login"}), 1, ["HTTP 302"]),
        (lambda _: httpx.Response(404, json=["odd"]), 1, ["HTTP 404"]),
    ],
)
def test_what_a_server_can_do_to_us(
    handler: Handler, code: int, words: list[str], capsys: Captured
) -> None:
    with answered_by(handler):
        assert botpool("bot", "show", "7") == code
    line = said(capsys)
    assert all(word in line for word in words), line


def test_a_full_server_says_when_to_come_back(capsys: Captured) -> None:
    answer = problem(503, "Pool zoom is drained.")
    answer.headers["Retry-After"] = "60"
    with answered_by(lambda _: answer):
        assert botpool("pool", "show", "zoom") == 1
    assert said(capsys) == "botpool: Pool zoom is drained. Try again in 60 s.\n"


def test_every_wrong_field_is_named_as_the_user_wrote_it(capsys: Captured) -> None:
    errors = [
        {"field": "meetingUrl", "message": "must be an address"},
        {"field": "queueTimeoutMs", "message": "is too long"},
    ]
    with answered_by(lambda _: problem(422, "meetingUrl: (and 1 more)", errors=errors)):
        assert botpool("bot", "create", "nowhere") == 2
    line = said(capsys)
    assert "MEETING_URL: must be an address; --queue-timeout-ms: is too long" in line


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nonsense"], ["No such command 'nonsense'", "'botpool --help'"]),
        (["bot", "list", "--nope"], ["--nope", "'botpool bot list --help'"]),
        (["bot", "show", "seven"], ["BOT"]),
        (["bot", "show", "0"], ["BOT"]),
        (["bot", "create"], ["MEETING_URL"]),
        (["bot", "list", "--status", "SAD"], ["--status", "SAD"]),
        (["bot", "list", "--limit", "501"], ["--limit"]),
        (["bot", "list", "--url", "ftp://x"], ["--url", "http://127.0.0.1:8700"]),
        (["bot", "list", "--url", "http://a b"], ["--url"]),
        (["bot", "list", "--url", "http://x:99999"], ["--url"]),
        (["bot", "list", "--url", "http://x", "--key", "clé"], ["--key"]),
        (["key", "create"], ["--name"]),
        (["key", "create", "--name", ""], ["--name"]),
        (["key", "create", "--name", "a", "--scope", "root"], ["--scope", "admin"]),
        (["up", "--config", "/nowhere.toml"], ["config", "/nowhere.toml"]),
    ],
)
def test_wrong_use_is_one_line_and_exit_2(
    arguments: list[str], words: list[str], capsys: Captured
) -> None:
    assert main(arguments) == 2
    line = said(capsys)
    assert all(word in line for word in words), line


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("{staySeconds: 3}", "is not JSON"),
        ("[1]", "must be a JSON object"),
        ('{"a": NaN}', "NaN"),
        ("[" * 100_000, "is not JSON"),
        ("@/no/such/file", "/no/such/file cannot be read"),
    ],
)
def test_data_that_is_no_object_never_reaches_the_server(
    data: str, words: str, capsys: Captured
) -> None:
    with answered_by(refused) as server:
        assert botpool("bot", "create", "https://meet.google.com/a", "--data", data) == 2
    assert words in said(capsys)
    assert server.requests == []


def test_a_pool_of_a_strange_name_is_not_looked_for_elsewhere(capsys: Captured) -> None:
    with answered_by(refused) as server:
        for name in ("", "..", "a/b", "a?b"):
            assert botpool("pool", "show", name) == 1
            assert "There is no pool" in said(capsys)
    assert server.requests == []


def test_an_interrupted_command_says_nothing(capsys: Captured) -> None:
    def interrupt(request: httpx.Request) -> httpx.Response:
        raise KeyboardInterrupt

    with answered_by(interrupt):
        assert botpool("bot", "list") == 130
    assert capsys.readouterr() == ("", "")


def test_interrupted_waiting_says_that_the_bot_goes_on(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("botpool.cli.following.time.sleep", interrupt)
    with answered_by(lambda _: httpx.Response(201, json={"bot": bot()})):
        assert botpool("bot", "create", "https://meet.google.com/a", "--wait") == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert "bot 7 goes on ('botpool bot stop 7' ends it)" in err


def test_a_command_without_its_verb_shows_what_there_is(capsys: Captured) -> None:
    assert main(["slot"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "uncordon" in err
