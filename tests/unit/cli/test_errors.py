"""Every error is one line on standard error that says what happened and what to do."""

import httpx
import pytest

from botpool.cli import main
from tests.support.fake_api import URL, Handler, bot_json, botpool, fake_api, problem

Captured = pytest.CaptureFixture[str]


def error_line(capsys: Captured) -> str:
    """The line on standard error; standard output must be empty."""
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
        (refused, 1, [f"{URL} does not answer: connection refused", "botpool up", "--url"]),
        (silent, 1, [URL, "no response within 30 s", "before you retry"]),
        (cut_off, 1, [URL, "disconnected"]),
        (lambda _: problem(401, "no"), 1, ["--key", "BOTPOOL_API_KEY", "botpool key create"]),
        (lambda _: problem(403, "This needs 'operator'."), 1, ["This needs 'operator'."]),
        (lambda _: problem(404, "There is no bot 7."), 1, ["There is no bot 7."]),
        (lambda _: problem(500, "It was logged."), 1, ["It was logged."]),
        (lambda _: httpx.Response(502, text="<html>Bad gateway"), 1, ["HTTP 502", URL]),
        (
            lambda _: httpx.Response(200, text="Welcome!"),
            1,
            ["did not answer as Botpool does", "version"],
        ),
        (
            lambda _: httpx.Response(200, json={"bot": {"id": 1}}),
            1,
            ["without a valid 'correlationId'"],
        ),
        (lambda _: httpx.Response(302, headers={"location": "/login"}), 1, ["HTTP 302"]),
        (lambda _: httpx.Response(404, json=["odd"]), 1, ["HTTP 404"]),
    ],
)
def test_each_failure_of_the_server_has_its_message(
    handler: Handler, code: int, words: list[str], capsys: Captured
) -> None:
    with fake_api(handler):
        assert botpool("bot", "show", "7") == code
    line = error_line(capsys)
    assert all(word in line for word in words), line


def test_unavailable_server_says_when_to_retry(capsys: Captured) -> None:
    answer = problem(503, "Pool zoom is drained.")
    answer.headers["Retry-After"] = "60"
    with fake_api(lambda _: answer):
        assert botpool("pool", "show", "zoom") == 1
    assert error_line(capsys) == "botpool: Pool zoom is drained. Try again in 60 s.\n"


def test_invalid_fields_have_the_names_of_the_options(capsys: Captured) -> None:
    errors = [
        {"field": "meetingUrl", "message": "must be an address"},
        {"field": "queueTimeoutMs", "message": "is too long"},
    ]
    with fake_api(lambda _: problem(422, "meetingUrl: (and 1 more)", errors=errors)):
        assert botpool("bot", "create", "nowhere") == 2
    line = error_line(capsys)
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
def test_usage_error_is_one_line_and_exit_2(
    arguments: list[str], words: list[str], capsys: Captured
) -> None:
    assert main(arguments) == 2
    line = error_line(capsys)
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
def test_invalid_data_is_not_sent(data: str, words: str, capsys: Captured) -> None:
    with fake_api(refused) as server:
        assert botpool("bot", "create", "https://meet.google.com/a", "--data", data) == 2
    assert words in error_line(capsys)
    assert server.requests == []


def test_invalid_pool_name_is_not_sent(capsys: Captured) -> None:
    with fake_api(refused) as server:
        for name in ("", "..", "a/b", "a?b"):
            assert botpool("pool", "show", name) == 1
            assert "There is no pool" in error_line(capsys)
    assert server.requests == []


def test_interrupted_command_prints_nothing(capsys: Captured) -> None:
    def interrupt(request: httpx.Request) -> httpx.Response:
        raise KeyboardInterrupt

    with fake_api(interrupt):
        assert botpool("bot", "list") == 130
    assert capsys.readouterr() == ("", "")


def test_interrupted_wait_says_that_the_bot_goes_on(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("botpool.client.connection.time.sleep", interrupt)
    with fake_api(lambda _: httpx.Response(201, json={"bot": bot_json()})):
        assert botpool("bot", "create", "https://meet.google.com/a", "--wait") == 130
    out, err = capsys.readouterr()
    assert out == ""
    assert "bot 7 goes on ('botpool bot stop 7' stops it)" in err


@pytest.mark.parametrize(("arguments", "named"), [([], "doctor"), (["slot"], "uncordon")])
def test_group_without_a_subcommand_prints_its_help(
    capsys: Captured, arguments: list[str], named: str
) -> None:
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert named in err
